"""Commits that the operations of many threads share."""

import sqlite3
import time
from collections.abc import Callable
from threading import Condition, RLock, get_ident
from typing import Any

from budget_core.ledger.errors import LedgerError
from budget_cpython.ledger.sqlite.connection import SqliteConnection
from budget_cpython.ledger.sqlite.trust import SQLITE_ERRORS
from budget_cpython.process_state import close_before_forks

Perform = Callable[[sqlite3.Connection, str, tuple[Any, ...]], Any]


class _Request:
    """One thread's operation, and what came of it; `done` once that lasts."""

    __slots__ = ("arguments", "done", "error", "operation", "result", "thread", "until")

    def __init__(self, operation: str, arguments: tuple[Any, ...], until: float) -> None:
        self.operation = operation
        self.arguments = arguments
        self.until = until
        self.thread = get_ident()
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None


class GroupCommit:
    """Does operations in transactions; those that come while one is under way share the next.

    One thread at a time leads: it takes all operations that wait, does one after another in a
    transaction, and commits. The other threads wait until theirs is done, or for their turn.

    `perform` does an operation on the open connection. It may be called several times for one, in
    any thread, after what it did before was undone. A `LedgerError` that it raises is an answer:
    what it has written stands.
    """

    def __init__(self, connection: SqliteConnection, perform: Perform) -> None:
        self._connection = connection
        self._perform = perform
        self._in_use = RLock()  # held while the connection is used, or kept closed
        self._changed = Condition()  # held while the attributes below change
        self._leader = 0  # a thread's number
        self._waiting: list[_Request] = []
        close_before_forks(self)

    def run(self, operation: str, *arguments: Any) -> Any:
        """Return an operation's result, or raise its error, once it is durable.

        An error undoes the operation that raised it and no other. An interrupt of this thread
        leaves the operation done or undone.

        Raises `LedgerUnavailableError` and `LedgerFullError` if the file cannot be used, or others
        have it for the connection's `timeout`. A commit that fails fails all operations in it.
        """
        if self._leader == get_ident():  # in a signal's handler, or a clock
            raise self._connection.locked()
        request = _Request(operation, arguments, time.monotonic() + self._connection.timeout)
        batch: list[_Request] = []
        try:
            if self._leads(request):
                with self._in_use:
                    with self._changed:
                        batch, self._waiting = self._waiting, []
                    left = batch
                    while left and not self._transact(left, request.until):
                        left = [one for one in left if not one.done]
                self._hand_over(batch, request)
        except BaseException:
            self._hand_over(batch, request)  # again, if an interrupt came during the first
            raise
        if request.error is not None:
            raise request.error
        return request.result

    def close(self) -> None:
        """Close the file until the next operation.

        Raises `LedgerUnavailableError` if it is in use for the connection's `timeout`.
        """
        if self._leader == get_ident() or not self._in_use.acquire(
            timeout=self._connection.timeout
        ):
            raise self._connection.locked()
        try:
            self._connection.close()
        finally:
            self._in_use.release()

    def before_fork(self) -> None:
        """Wait for the transaction under way, close the file, and keep it closed."""
        self._in_use.acquire()
        self._changed.acquire()
        self._connection.close()

    def after_fork(self, in_child: bool) -> None:
        """Let the file be opened again; a child has none of the other threads."""
        if in_child:
            self._leader = 0
            self._waiting.clear()
        self._changed.release()
        self._in_use.release()

    def _leads(self, request: _Request) -> bool:
        """Wait until a request is done, which is `False`, or it is this thread's turn to lead."""
        with self._changed:
            self._waiting.append(request)
            while not request.done and not self._is_next(request.thread):
                left = None
                if request in self._waiting:
                    left = request.until - time.monotonic()
                    if left <= 0:
                        raise self._connection.locked()
                self._changed.wait(left)
            if not request.done:
                self._leader = get_ident()
            return not request.done

    def _is_next(self, thread: int) -> bool:
        """Tell whether a thread leads next, also in a signal's handler while it waits itself."""
        return not self._leader and self._waiting[0].thread == thread

    def _hand_over(self, batch: list[_Request], own: _Request) -> None:
        """Wake the other threads: some requests are done, and the first that waits leads next."""
        with self._changed:
            own.done = True  # or given up: no thread does it later
            self._waiting = [one for one in [*batch, *self._waiting] if not one.done]
            batch.clear()
            if self._leader == get_ident():
                self._leader = 0
            self._changed.notify_all()

    def _transact(self, batch: list[_Request], until: float) -> bool:
        """Do operations in one transaction; return whether they are done.

        If one fails after it has written, all are undone, and it alone is done: it has failed.
        """
        connection = self._connection
        committing = False
        try:
            db = connection.begin(until)
            for one in batch:
                changes = db.total_changes
                try:
                    one.result, one.error = self._perform(db, one.operation, one.arguments), None
                except LedgerError as error:
                    one.error = error
                except Exception as error:  # noqa: BLE001 - its own thread raises it
                    one.error = error
                    if isinstance(error, SQLITE_ERRORS):
                        one.error = connection.ledger_error(error)
                    if one.error is not error or db.total_changes != changes:
                        one.done = True
                        connection.roll_back(error)
                        return False
            committing = True
            db.execute("COMMIT")
            for one in batch:
                one.done = True
        except SQLITE_ERRORS as error:
            for one in batch:
                one.error, one.done = connection.ledger_error(error, None), True
            connection.roll_back(error)
        except BaseException:
            if not connection.roll_back() and committing:  # it came right after the commit
                for one in batch:
                    one.done = True
            raise
        return True

"""Commits that the operations of many threads share."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from threading import Condition, RLock, get_ident
from typing import Any

from budget_core.ledger.errors import LedgerError
from budget_cpython.ledger.sqlite.connection import SqliteConnection
from budget_cpython.ledger.sqlite.trust import SQLITE_ERRORS
from budget_cpython.process_state import close_before_forks

Perform = Callable[[sqlite3.Connection, str, tuple[Any, ...]], Any]


class _Request:
    """One thread's operation, and what came of it; `done` once that lasts."""

    __slots__ = ("arguments", "done", "error", "operation", "result", "thread")

    def __init__(self, operation: str, arguments: tuple[Any, ...]) -> None:
        self.operation = operation
        self.arguments = arguments
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

    def run(self, operations: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Do a thread's operations in their order, in one commit; return once they are durable.

        Each has its result, or its error in the place of that; an error undoes the operation that
        raised it and no other, and a commit that fails fails all operations in it. An interrupt of
        this thread leaves each operation done or undone.

        Raises `LedgerUnavailableError` for all of them if others have the file for the
        connection's `timeout`.
        """
        if self._leader == get_ident():  # in a signal's handler, or a clock
            raise self._connection.locked()
        until = time.monotonic() + self._connection.timeout
        requests = [_Request(*one) for one in operations]
        batch: list[_Request] = []
        try:
            if self._leads(requests, until):
                with self._in_use:
                    with self._changed:
                        batch, self._waiting = self._waiting, []
                    left = batch
                    while left and not self._transact(left, until):
                        left = [one for one in left if not one.done]
                self._hand_over(batch, requests)
        except BaseException:
            self._hand_over(batch, requests)  # again, if an interrupt came during the first
            raise
        return [one.result if one.error is None else one.error for one in requests]

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

    def _leads(self, requests: list[_Request], until: float) -> bool:
        """Wait until requests are done, which is `False`, or it is this thread's turn to lead."""
        with self._changed:
            self._waiting += requests
            while left := [one for one in requests if not one.done]:
                if self._is_next(left[0].thread):
                    self._leader = get_ident()
                    return True
                rest = None
                if left[0] in self._waiting:
                    rest = until - time.monotonic()
                    if rest <= 0:
                        raise self._connection.locked()
                self._changed.wait(rest)
            return False

    def _is_next(self, thread: int) -> bool:
        """Tell whether a thread leads next, also in a signal's handler while it waits itself."""
        return not self._leader and self._waiting[0].thread == thread

    def _hand_over(self, batch: list[_Request], own: list[_Request]) -> None:
        """Wake the other threads: some requests are done, and the first that waits leads next."""
        with self._changed:
            for one in own:
                one.done = True  # or given up: no thread does it later
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

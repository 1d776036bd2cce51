"""Commits that the operations of many threads share."""

import time
from collections.abc import Sequence
from itertools import filterfalse
from operator import attrgetter
from threading import Condition, RLock, get_ident
from typing import Any

from budget_core.ledger.errors import LedgerError
from budget_cpython.context.process_state import close_before_forks
from budget_cpython.ledger.sqlite.connection import SqliteConnection
from budget_cpython.ledger.sqlite.loaded_ledger import LoadedLedger, Operation
from budget_cpython.ledger.sqlite.trust import SQLITE_ERRORS


class _Request:
    """One thread's operation, and what came of it; `done` once that lasts."""

    __slots__ = ("done", "operation", "result", "thread")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.thread = get_ident()
        self.done = False
        self.result: Any = None  # or an error


_is_done = attrgetter("done")
_operation = attrgetter("operation")
_result = attrgetter("result")


class GroupCommit:
    """Does operations in transactions; those that come while one is under way share the next.

    One thread at a time leads: it takes all operations that wait, does them in a transaction, and
    commits. The other threads wait until theirs is done, or for their turn.

    The `core` does operations on the open connection, and returns the result of each, or an error
    in the place of that. It may be asked several times for one, in any thread, after what it did
    before was undone. A transaction of `unsynced` operations alone lasts through a crash of the
    process, but not through a loss of power until the next one that is synced.
    """

    def __init__(
        self, connection: SqliteConnection, core: LoadedLedger, unsynced: frozenset[str]
    ) -> None:
        self._connection = connection
        self._core = core
        self._is_known = False  # whether the last transaction was committed, as the core has it
        self._unsynced = unsynced
        self._in_use = RLock()  # held while the connection is used, or kept closed
        self._changed = Condition()  # held while the attributes below change
        self._leader = 0  # a thread's number
        self._waiting: list[_Request] = []
        close_before_forks(self)

    def run(
        self, operations: Sequence[Operation], undone: list[Operation] | None = None
    ) -> list[Any]:
        """Do a thread's operations in their order, in one commit; return once they are durable.

        Each has its result, or its error in the place of that; an error undoes the operation that
        raised it and no other, and a commit that fails fails all operations in it. An interrupt of
        this thread leaves each operation done or undone; those that are certainly undone are added
        to `undone`. Those that are not done within the connection's `timeout`, as others have the
        file, have a `LedgerUnavailableError`.
        """
        until = time.monotonic() + self._connection.timeout
        requests = list(map(_Request, operations))
        batch: list[_Request] = []
        try:
            if self._leads(requests, until):
                with self._in_use:
                    with self._changed:
                        batch, self._waiting = self._waiting, []
                    parts = [batch]
                    while parts:
                        part = parts.pop(0)
                        if not self._transact(part, until):  # then one fails alone in the end
                            half = len(part) // 2
                            parts[:0] = part[:half], part[half:]
                self._hand_over(batch, requests)
        except LedgerError as error:
            for one in filterfalse(_is_done, requests):
                one.result = error
            self._hand_over(batch, requests)
        except BaseException:
            with self._changed:
                if undone is not None:  # what neither list has, another thread may be doing
                    mine = [one for one in (*batch, *self._waiting) if one in requests]
                    undone += map(_operation, filterfalse(_is_done, mine))
                self._hand_over(batch, requests)  # again, if an interrupt came during the first
            raise
        return list(map(_result, requests))

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
        own = get_ident()
        if self._leader == own:  # in a signal's handler, or a clock
            raise self._connection.locked()
        with self._changed:
            self._waiting += requests
            while requests and not requests[-1].done:  # they are done in their order
                if not self._leader and self._waiting[0].thread == own:  # in a handler's thread too
                    self._leader = own
                    return True
                rest = None
                if requests[-1] in self._waiting:
                    rest = until - time.monotonic()
                    if rest <= 0:
                        raise self._connection.locked()
                self._changed.wait(rest)
            return False

    def _hand_over(self, batch: list[_Request], own: list[_Request]) -> None:
        """Wake the other threads: some requests are done, and the first that waits leads next."""
        with self._changed:
            for one in own:
                one.done = True  # or given up: no thread does it later
            self._waiting = list(filterfalse(_is_done, [*batch, *self._waiting]))
            batch.clear()
            if self._leader == get_ident():
                self._leader = 0
            self._changed.notify_all()

    def _transact(self, batch: list[_Request], until: float) -> bool:
        """Do operations in one transaction; return whether they are done, if only by an error.

        If one of several fails, all are undone. A commit that fails fails all of them.
        """
        connection = self._connection
        committing = False
        operations = list(map(_operation, batch))
        is_known, self._is_known = self._is_known, False  # if this is interrupted
        try:
            db = connection.begin(until, not dict(operations).keys() <= self._unsynced)
            try:
                results = self._core.perform(db, operations, is_known and connection.is_unchanged)
            except Exception as error:  # noqa: BLE001 - its own thread raises it
                connection.roll_back(error)
                if len(batch) > 1:
                    return False
                is_ours = isinstance(error, SQLITE_ERRORS)
                batch[0].result = connection.ledger_error(error) if is_ours else error
                batch[0].done = True
                return True
            for one, result in zip(batch, results, strict=True):
                one.result = result
            committing = True
            db.execute("COMMIT")
            self._is_known = True
            for one in batch:
                one.done = True
        except SQLITE_ERRORS as error:
            for one in batch:
                one.result, one.done = connection.ledger_error(error, None), True
            connection.roll_back(error)
        except BaseException:
            if not connection.roll_back() and committing:  # it came right after the commit
                for one in batch:
                    one.done = True
            raise
        return True

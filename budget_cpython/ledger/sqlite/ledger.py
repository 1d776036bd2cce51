"""The ledger in a file, as its users see it."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from budget_core.errors import refuse
from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.hold import ROOMS, wake
from budget_core.ledger.limit import Limit
from budget_core.wall_clock import DAY
from budget_cpython.context.process_state import USAGE_LOGS
from budget_cpython.ledger.limit_changes import changed_by
from budget_cpython.ledger.operations import OPERATIONS, TOGETHER
from budget_cpython.ledger.outages import OutageLog
from budget_cpython.ledger.passthrough import Passthrough
from budget_cpython.ledger.refusals import RefusalLog
from budget_cpython.ledger.sqlite.connection import SqliteConnection
from budget_cpython.ledger.sqlite.group_commit import GroupCommit
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile
from budget_cpython.ledger.sqlite.loaded_journal import LoadedJournal
from budget_cpython.ledger.sqlite.loaded_ledger import READS
from budget_cpython.ledger.sqlite.read_only import ReadOnlyConnection, back_up, open_read_only
from budget_cpython.ledger.usage_log import UsageLog, flush_usage
from budget_cpython.ledger.windows import Window, parse_window
from budget_cpython.wall_clock import WALL

# which leave something to settle
_HOLDING = frozenset(name for name in TOGETHER if not OPERATIONS[name].settles)


class SqliteLedger(Passthrough):
    """Budgets by path in an SQLite file, shared by any number of threads and processes.

    An operation is durable once it has returned, also through a loss of power. Operations of all
    threads that come while one commits share the next commit. What calls used by model and tool is
    written with the next settlement, in its commit.

    With `durability="settle"`, a `reserve` or `extend` is not synced to the disk by itself: a call
    takes one sync, that of its settlement. A crash of the process still loses nothing. A loss of
    power may undo the holds that were taken after the last synced operation: then nothing counts
    what their calls used, which were in flight, and their keys are free. docs/ledger.md says more.

    The file, and those that SQLite makes beside it, are for their owner alone. `path` is made
    absolute at once; its folder must exist, on a disk of this machine. Without `create` the file
    must exist too. A `path` that leads into `workspace`, a folder that an agent writes to, is a
    `ValueError`. `timeout` is how many seconds an operation waits for others.

    A settled hold is known for `keep` seconds by its id, with a key or without. A hold that was
    returned does not change: `hold` returns what became of it. Windows, axes and accounts are as in
    `budget_core.Ledger`, which describes every method.

    Every method may also raise `LedgerUnavailableError`, whose `applied` is `None` if the operation
    may have taken place, and `LedgerFullError` if the disk is full. The next one tries again. A
    `LedgerCorruptError` is raised until the file is restored: it is damaged, was removed, or
    another one took its place.
    """

    TAKES_USAGE = True  # with the next settlement

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        *,
        clock: Callable[[], float] = WALL,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = DAY,
        timeout: float = 5.0,
        workspace: "str | os.PathLike[str] | None" = None,
        create: bool = True,
        durability: str = "full",
    ) -> None:
        if durability not in ("full", "settle"):
            refuse("durability", "'full' or 'settle'", durability)
        if not 0 <= timeout <= 3600:
            raise ValueError(f"timeout must be seconds from 0 to 3600, not {timeout!r}")
        file = LedgerFile(path, workspace, create)
        self.path = file.path
        core = LoadedJournal(clock, windows, axes=axes, max_accounts=max_accounts, keep=keep)
        unsynced = _HOLDING if durability == "settle" else frozenset[str]()
        connection = SqliteConnection(file, timeout, not unsynced)
        self._commits = GroupCommit(connection, core, unsynced)
        self._usage = USAGE_LOGS[self] = UsageLog(self)
        self._refusals = RefusalLog(self)
        self._outages = OutageLog()

    @staticmethod
    def view(path: "str | os.PathLike[str]") -> ReadOnlyConnection:
        """Open the file of a ledger for reading alone: an `sqlite3.Connection` to close after use.

        It has the tables `balances`, `holds_live`, `history`, `events` and `usage`, with times in
        Unix seconds and `NULL` for unlimited and never, as the last operation on each account left
        them. A fork closes it. Raises `LedgerUnavailableError`.
        """
        return open_read_only(LedgerFile(path))

    @staticmethod
    def back_up(path: "str | os.PathLike[str]", copy: "str | os.PathLike[str]") -> None:
        """Write a copy of a ledger's file, which may be in use, as a new file of its owner alone.

        docs/operating.md says how to restore it. Raises `LedgerUnavailableError`.
        """
        back_up(LedgerFile(path), os.fspath(copy))

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others, and note what changed."""
        self._settle("set_limits", path, limits, changed_by())

    def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were.

        Each transaction settles some, so that others need not wait for all.
        """
        self._refusals.flush()
        count = 0
        while found := super().expire():
            count += found
        return count

    def close(self) -> None:
        """Close the file; a later operation opens it again.

        Raises `LedgerUnavailableError` if it is in use for the whole of `timeout`.
        """
        self._refusals.flush()
        flush_usage(self)
        self._commits.close()

    def __enter__(self) -> "SqliteLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def do_together(self, operations: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """Do operations such as `("charge", ("org", {"calls": 1}))` in their order, in one commit.

        Returns the result of each, or the error that its method would raise. A `reserve` does not
        wait for holds.
        """
        found = self._commits.run(operations)
        for place, (operation, arguments) in enumerate(operations):
            try:
                found[place] = self._seen(found[place], operation, arguments)
            except Exception as error:  # noqa: BLE001 - it is the answer to this one
                found[place] = error
            else:
                if OPERATIONS[operation].settles:
                    wake(self, *arguments[:1])
        return found

    def _do(self, operation: str, *arguments: Any) -> Any:
        (found,) = self._commits.run([(operation, arguments)])
        return self._seen(found, operation, arguments)

    def _settle(self, operation: str, *arguments: Any) -> Any:
        """Do an operation, and write what calls used until now in its commit."""
        operations: list[tuple[str, tuple[Any, ...]]] = [(operation, arguments)]
        undone: list[tuple[str, tuple[Any, ...]]] = []
        used = self._usage.take()
        if used:
            operations.insert(0, ("tell_usage", (used,)))
        try:
            *told, found = self._commits.run(operations, undone)
        except BaseException:
            if used and any(one is operations[0] for one in undone):
                self._usage.put_back(used)
            raise
        for failure in told:
            if failure is not None:
                self._usage.keep(used, failure)
        found = self._seen(found, operation, arguments)
        if ROOMS:
            wake(self, *arguments[:1])
        return found

    def _seen(self, found: Any, operation: str, arguments: tuple[Any, ...]) -> Any:
        """Return a result, or raise the error in its place; note refusals and outages."""
        while found is None and operation in READS:
            (found,) = self._commits.run([(operation, arguments)])
        if isinstance(found, Exception):
            if isinstance(found, BudgetExceededError):
                self._refusals.add(getattr(arguments[0], "path", arguments[0]), found)
            elif isinstance(found, LedgerUnavailableError):
                self._outages.begin(found)
            raise found
        if self._outages.since is not None and operation != "note":
            self._outages.end(self)
        return found

"""The ledger in a file, as its users see it."""

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from budget_core.checks import check_text
from budget_core.ledger.errors import LedgerError
from budget_core.ledger.limit import Limit, check_path
from budget_core.ledger.records import TTL, Balance, Hold, check_hold, wake
from budget_core.wall_clock import DAY
from budget_cpython.ledger.sqlite.connection import Connection
from budget_cpython.ledger.sqlite.group_commit import GroupCommit
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile
from budget_cpython.ledger.sqlite.loaded_ledger import LoadedLedger
from budget_cpython.ledger.sqlite.read_only import ReadOnlyConnection, back_up, open_read_only
from budget_cpython.ledger.sqlite.rows import Rows
from budget_cpython.ledger.windows import Window, parse_window
from budget_cpython.wall_clock import WALL

STEP = 500  # holds that expire in one transaction: others wait meanwhile

T = TypeVar("T")


class SqliteLedger:
    """Budgets by path in an SQLite file, shared by any number of threads and processes.

    An operation is durable once it has returned, also through a loss of power. Operations of all
    threads that come while one commits share the next commit.

    The file, and those that SQLite makes beside it, are for their owner alone. `path` is made
    absolute at once; its folder must exist, on a disk of this machine. Without `create` the file
    must exist too. A `path` that leads into `workspace`, a folder that an agent writes to, is a
    `ValueError`.
    `timeout` is how many seconds an operation waits for others.

    A settled hold is known for `keep` seconds by its id, with a key or without. A hold that was
    returned does not change: `hold` returns what became of it. Windows, axes and accounts are as in
    `budget_core.Ledger`, which describes every method.

    Every method may also raise `LedgerUnavailableError`, whose `applied` is `None` if the operation
    may have taken place, and `LedgerFullError` if the disk is full. The next one tries again. A
    `LedgerCorruptError` is raised until the file is restored: it is damaged, was removed, or
    another one took its place.
    """

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
    ) -> None:
        if not 0 <= timeout <= 3600:
            raise ValueError(f"timeout must be seconds from 0 to 3600, not {timeout!r}")
        file = LedgerFile(path, workspace, create)
        self.path = file.path
        self._core = LoadedLedger(clock, windows, axes, max_accounts, keep)
        self._commits = GroupCommit(Connection(file, timeout), self._perform)

    @staticmethod
    def view(path: "str | os.PathLike[str]") -> ReadOnlyConnection:
        """Open the file of a ledger for reading alone: an `sqlite3.Connection` to close after use.

        It has the tables `balances`, `holds_live` and `history`, with times in Unix seconds and
        `NULL` for unlimited and never, as the last operation on each account left them. A fork
        closes it. Raises `LedgerUnavailableError`.
        """
        return open_read_only(LedgerFile(path))

    @staticmethod
    def back_up(path: "str | os.PathLike[str]", copy: "str | os.PathLike[str]") -> None:
        """Write a copy of a ledger's file, which may be in use, as a new file of its owner alone.

        docs/ledger.md says how to restore it. Raises `LedgerUnavailableError`.
        """
        back_up(LedgerFile(path), os.fspath(copy))

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        self._settle(lambda rows: rows.set_limits(check_path(path), limits), path)

    def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return self._commits.run(lambda rows: rows.load_accounts(path).limits(path))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return self._commits.run(Rows.accounts)

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts on every limit of the path and of all above it, or raise."""
        if wait:
            from budget_core.ledger.waiting import reserve_blocking  # most programs never wait

            return reserve_blocking(self, path, amounts, key, ttl, wait)
        return self._commits.run(
            lambda rows: rows.load_accounts(path, key).reserve(path, amounts, key, ttl)
        )

    def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent without asking."""
        return self._settle(
            lambda rows: rows.load_accounts(path, key).charge(path, amounts, key), path
        )

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Record what a call used in the place of its hold."""
        return self._settle(
            lambda rows: rows.load_hold(check_hold(hold).path, hold.id).commit(hold, actual), hold
        )

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return self._settle(
            lambda rows: rows.load_hold(check_hold(hold).path, hold.id).release(hold), hold
        )

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        return self._commits.run(
            lambda rows: rows.load_hold(check_hold(hold).path, hold.id).extend(hold, ttl)
        )

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return self._commits.run(
            lambda rows: rows.load_hold(path, check_text("id", id)).hold(path, id)
        )

    def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were.

        Each transaction settles some, so that others need not wait for all.
        """
        count, found = 0, STEP
        while found == STEP:
            found = self._settle(lambda rows: rows.sweep(STEP))
            count += found
        return count

    def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        return self._after_expiry(lambda rows: rows.load_accounts(path).balance(path))

    def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return self._after_expiry(lambda rows: rows.load_accounts(path, past=True).history(path))

    def close(self) -> None:
        """Close the file; a later operation opens it again.

        Raises `LedgerUnavailableError` if it is in use for the whole of `timeout`.
        """
        self._commits.close()

    def __enter__(self) -> "SqliteLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def _settle(self, operation: Callable[[Rows], T], place: "str | Hold | None" = None) -> T:
        """Do an operation after which calls that wait may be granted."""
        found = self._commits.run(operation)
        wake(self, place)
        return found

    def _after_expiry(self, read: Callable[[Rows], T]) -> T:
        """Read when no live hold is over; each transaction settles some."""
        found: T | None = None
        while found is None:
            found = self._commits.run(
                lambda rows: None if rows.expire(STEP) == STEP else read(rows)
            )
        return found

    def _perform(self, db: sqlite3.Connection, operation: Callable[[Rows], T]) -> T:
        rows = Rows(db, self._core)
        try:
            found = operation(rows)
        except LedgerError:
            rows.save()  # a refusal may have moved windows on
            raise
        rows.save(found if isinstance(found, Hold) else None)
        return found

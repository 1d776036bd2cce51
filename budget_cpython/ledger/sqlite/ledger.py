"""The ledger in a file, as its users see it."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from budget_core.ledger.records import Balance
from budget_core.wall_clock import DAY
from budget_cpython.ledger.sqlite.connection import Connection
from budget_cpython.ledger.sqlite.holds import STEP
from budget_cpython.ledger.sqlite.place import Place
from budget_cpython.ledger.sqlite.stored import StoredLedger
from budget_cpython.ledger.sqlite.view import View, view
from budget_cpython.ledger.sqlite.whole import whole
from budget_cpython.ledger.windows import Window, parse_window
from budget_cpython.wall_clock import WALL


@whole
class SqliteLedger(StoredLedger):
    """Budgets by path in an SQLite file, counted right by any number of threads and processes.

    Each operation is one transaction, before which a look has holds expire some at a time. It lasts
    once it has returned, also through a loss of power. The file, and those that SQLite makes beside
    it, are for their owner alone. `path` is made absolute at once, and missing parent folders are
    made; it must be on a disk of this machine. `workspace` is a folder that an agent writes to: a
    `path` that leads there is a `ValueError`. `timeout` is how many seconds an operation waits for
    others.

    A settled hold is known for `keep` seconds by its id, with a key or without. A hold that is
    returned does not change any more: ask `hold` for what became of it. Windows, axes and accounts
    are as in `budget_core.Ledger`, where every method is described.

    Every method may also raise `LedgerUnavailableError`, whose `applied` tells whether it may have
    been done all the same, and `LedgerFullError` where the disk is full. The next one tries again.
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
    ) -> None:
        if not 0 <= timeout <= 3600:
            raise ValueError(f"timeout must be seconds from 0 to 3600, not {timeout!r}")
        place = Place(path, workspace)
        self.path = place.path
        super().__init__(
            Connection(place, timeout),
            clock,
            windows=windows,
            axes=axes,
            max_accounts=max_accounts,
            keep=keep,
        )

    @staticmethod
    def view(path: "str | os.PathLike[str]") -> View:
        """Open the file of a ledger for reading alone: an `sqlite3.Connection` to close after use.

        It has the tables `balances`, `holds_live` and `history`, times in Unix seconds, `NULL` for
        unlimited and never. What it says is of the last operation on each account: a window that
        is over is moved on from by the next. A fork closes it. Raises `LedgerUnavailableError`.
        """
        return view(Place(path))

    def close(self) -> None:
        """Close the file; a later operation opens it again.

        Raises `LedgerUnavailableError` where it is in use for the whole of `timeout`, or by what
        this call interrupts.
        """
        self._file.close()

    def __enter__(self) -> "SqliteLedger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        with self._lock:
            rows = self._file.db.execute("SELECT DISTINCT account FROM limits ORDER BY account")
            return [account for (account,) in rows]

    def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were.

        It is done some at a time, so that others need not wait for all of it.
        """
        return self._expire_in_steps(prune=True)

    def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        self._expire_in_steps(prune=False)
        return super().balance(path)

    def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        self._expire_in_steps(prune=False)
        return super().history(path)

    def _expire_in_steps(self, prune: bool) -> int:
        found = 0
        while True:
            with self._lock:
                now = self._now()
                over = self._expire_some(now)
                found += self._swept + over
                if prune:
                    self._holds.prune(now, STEP)
            if over < STEP:
                return found

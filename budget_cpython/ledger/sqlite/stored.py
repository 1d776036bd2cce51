"""The core's ledger, with its accounts and holds in the rows of a file.

The rules are the core's. An operation is a transaction: what it asks for is read, the core changes
it in memory, and what has changed is written back. What was read stays in memory for the next one,
and is read again once anybody else has written.
"""

from collections.abc import Callable, Sequence
from typing import Any

from budget_core.ledger import memory
from budget_core.ledger.errors import LedgerError, UnknownHoldError
from budget_core.ledger.limit import chain, check_key, check_path, root
from budget_core.ledger.records import Hold
from budget_cpython.ledger.sqlite.connection import Connection
from budget_cpython.ledger.sqlite.holds import STEP, HoldRows
from budget_cpython.ledger.sqlite.rows import CellRows
from budget_cpython.ledger.windows import Window

PRUNE_EVERY = 32  # holds, whoever takes them: programs may be short
LOOKED_AT = 128  # holds each time: settled ones are removed sooner than others take their place
MOST_KNOWN = 4096  # cells and holds that are remembered from one transaction to the next


class StoredLedger(memory.Ledger):
    """Everything about a ledger in a file but how it is opened and closed."""

    def __init__(
        self,
        file: Connection,
        clock: Callable[[], float],
        *,
        windows: Callable[[Any], Window],
        axes: Sequence[str] | None,
        max_accounts: int,
        keep: int,
    ) -> None:
        super().__init__(
            clock,
            _Transaction(self),
            windows=windows,
            axes=axes,
            max_accounts=max_accounts,
            keep=keep,
        )
        self._file = file
        self._cells = CellRows(self._window)
        self._holds = HoldRows(self._cells, self._keep_ms)
        self._read: set[str] = set()  # paths, be they accounts or not
        self._seen: Any = None  # the connection, and what it said of others' writes
        self._checked: Any = None  # the same, as of when the file's version was looked at
        self._known_version = 0
        self._at: int | None = None
        self._swept = 0  # holds that were over when the transaction began

    def undo(self, error: BaseException) -> None:
        """Undo what an operation has begun, if it has."""
        if self._file.is_mine():
            self._seen = None
        self._file.give_up(error)

    def _recall(self, seen: Any) -> None:
        if seen != self._checked:
            self._file.check()
            self._checked = seen
        self._forget()
        self._seen = seen
        self._known_version = self._version

    def _forget(self) -> None:
        self._accounts.clear()
        self._read.clear()
        self._cells.forget(self._file.db)
        self._holds.forget(self._file.db)

    def _write(self) -> bool:
        """Write what has changed; return whether what is remembered may be wrong then."""
        moved = self._version != self._known_version
        if moved:
            limits = {path: account.limits for path, account in self._accounts.items()}
            self._cells.write(self._read, limits)
            self._known_version = self._version
        elsewhere = False
        last = self._holds.last
        changed = self._holds.write()
        if changed:
            for cells in changed:
                elsewhere = self._cells.write_counts(cells) or elsewhere
            if self._holds.last > last and self._holds.last % PRUNE_EVERY == 0:
                self._holds.prune(self._now(), LOOKED_AT)
        known = self._cells.known() + self._holds.known() + len(self._read)
        return moved or elsewhere or known > MOST_KNOWN

    def _load(self, paths: list[str]) -> None:
        missing = [path for path in paths if path not in self._read]
        if missing:
            self._read.update(missing)
            for path, limits in self._cells.limits(missing).items():
                self._put(path, limits)

    def _account(self, path: str) -> Any:
        self._load(chain(path))
        return super()._account(path)

    def _count_accounts(self) -> int:
        (count,) = self._file.db.execute("SELECT accounts FROM ledger").fetchone()
        return int(count)

    def _open(self, path: str, now: int) -> Any:
        if path not in self._accounts:
            self._load(chain(check_path(path)))
        return super()._open(path, now)

    def _new_id(self) -> str:
        return self._holds.new_id()

    def _keep(self, place: str, hold: Hold, now: int) -> None:
        self._holds.add(hold, now)

    def _keep_settled(self, place: str, hold: Hold, now: int) -> None:
        self._holds.add(hold, now)

    def _now(self) -> int:
        """Return the time of the transaction, which is asked for once."""
        if self._at is None:
            self._at = super()._now()
        return self._at

    def _look_up(self, place: str) -> Hold | None:
        return self._holds.find(place, self._now())

    def _find(self, hold: Hold) -> Hold:
        place = hold.id
        if place[:1] != "#":
            place = f"{root(check_path(hold.path))}/{check_key(place)}"
        found = self._look_up(place)
        if found is None or found.path != hold.path:
            raise UnknownHoldError(hold.path, hold.id)
        return found

    def _settle(self, hold: Hold, state: str, used: dict[str, int]) -> None:
        self._holds.open_cells(hold)
        super()._settle(hold, state, used)

    def _retire(self, hold: Hold) -> None:
        self._holds.settled(hold, self._now())

    def _expire(self, now: int) -> int:
        found = 0
        while True:
            over = self._expire_some(now)
            found += over
            if over < STEP:
                return found

    def _expire_some(self, now: int) -> int:
        over = self._holds.over(now)
        for hold in over:
            self._expire_one(hold, now)
        if over:
            self._write()
            self._forget()
        return len(over)


class _Transaction:
    """The lock of a ledger in a file."""

    def __init__(self, ledger: StoredLedger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        """Begin a transaction, with what was read before where nobody has written since."""
        ledger = self._ledger
        file = ledger._file
        file.begin()
        ledger._at = None
        seen = (file.db, file.db.execute("PRAGMA data_version").fetchone())
        if seen != ledger._seen:
            ledger._recall(seen)
        ledger._swept = ledger._expire_some(ledger._now()) if ledger._holds.are_many() else 0

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Write what has changed; a refusal may have moved windows on, and is no trouble."""
        if error is not None and not isinstance(error, LedgerError):
            return  # it is undone
        ledger = self._ledger
        stale = ledger._write()
        seen, ledger._seen = ledger._seen, None
        ledger._file.commit()
        if not stale:
            ledger._seen = seen
        ledger._file.release()

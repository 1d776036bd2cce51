"""Load what an operation needs of a ledger's file into the core's ledger, and save it again."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from json import JSONDecoder
from typing import Any

from budget_core.ledger.bucket import HELD, Cell, CountedLimit
from budget_core.ledger.errors import UnknownHoldError
from budget_core.ledger.limit import MAX_DEPTH, Limit, chain, check_key, check_path, root
from budget_core.ledger.records import Hold
from budget_cpython.ledger.sqlite.loaded_ledger import LoadedLedger

SWEEP_EVERY = 32  # holds, whichever process takes them: programs may be short
SWEPT = 128  # holds at a time: more than come meanwhile

_COUNT = "SELECT id, starts, ends, spent, held, cap"
_CURRENT = _COUNT + (
    ", account, axis, window FROM counts WHERE current AND account IN (%s)"
    " ORDER BY account, axis, window"
)
_CHAINS = [_CURRENT % ", ".join("?" * depth) for depth in range(MAX_DEPTH + 1)]
_OF_LIMIT = " FROM counts WHERE account = ? AND axis = ? AND window = ?"
_PAST = _COUNT + _OF_LIMIT + " AND NOT current ORDER BY starts DESC"
_EARLIER = (
    "SELECT coalesce(sum(spent), 0), coalesce(sum(held), 0)"
    + _OF_LIMIT
    + " AND starts >= ? AND starts < ?"
)
_OF_HOLD = _COUNT + ", axis FROM counts WHERE id IN (%s)"
_UPDATE_COUNT = "UPDATE counts SET spent = ?, held = ? WHERE id = ?"
_UPDATE_WINDOW = "UPDATE counts SET current = ?, starts = ?, ends = ?, cap = ? WHERE id = ?"
_INSERT_COUNT = (
    "INSERT INTO counts (current, starts, ends, spent, held, cap, account, axis, window)"
    " VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_HOLD = "SELECT number, name, path, amounts, counts, state, expires, actual FROM holds"
_KNOWN = _HOLD + " WHERE name = ? AND (state = 'held' OR due = 0 OR due > ?)"
_OVER = _HOLD + " WHERE state = 'held' AND due <= ? ORDER BY due LIMIT ?"
_INSERT_HOLD = (  # in the place of one of that name that is forgotten
    "INSERT OR REPLACE INTO holds"
    " (name, path, amounts, counts, state, expires, actual, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_HOLD = "UPDATE holds SET state = ?, expires = ?, actual = ?, due = ? WHERE number = ?"
_FORGET = (
    "DELETE FROM holds WHERE number IN"
    " (SELECT number FROM holds WHERE state != 'held' AND due > 0 AND due <= ? LIMIT ?)"
)
_DATE = (
    "UPDATE holds SET due = ? WHERE number IN"
    " (SELECT number FROM holds WHERE state != 'held' AND due = 0 LIMIT ?)"
)

_decode = JSONDecoder().raw_decode


@lru_cache(1024)
def _chain(path: str) -> list[str]:
    return chain(check_path(path))


class Rows:
    """What one operation loads of a file, as the core's objects, and saves where it has changed."""

    def __init__(self, db: sqlite3.Connection, core: LoadedLedger) -> None:
        core.begin()
        self.core = core
        self._db = db
        self._cells: dict[int, Cell] = {}  # by their ids
        self._counts: dict[Cell, tuple[int, int, int]] = {}  # ids, spent and held as loaded
        self._windows: dict[CountedLimit, Any] = {}  # current as loaded
        self._holds: dict[Hold, tuple[int, str, int | None]] = {}  # numbers, and as loaded

    def load_accounts(self, path: str, key: str | None = None, past: bool = False) -> LoadedLedger:
        """Load the accounts of a path and all above it, and return the core's ledger with them.

        With a `key`, its hold is loaded too; with `past`, all windows of the limits.
        """
        core = self.core
        if key is not None:
            self.load_hold(path, check_key(key))
        paths = _chain(path) if isinstance(path, str) else chain(check_path(path))
        found: dict[str, list[CountedLimit]] = {}
        for *count, account, axis, name in self._db.execute(_CHAINS[len(paths)], paths):
            limit = CountedLimit(account, axis, core.parse_window(name))
            limit.cell = cell = self._cell(count, limit)
            names = (account, axis, name)
            if past or core.now >= cell.end:
                limit.past = [self._cell(row, limit) for row in self._db.execute(_PAST, names)]
            elif limit.window.reach:  # one cell stands for all that still count: they may be many
                first = limit.window.bounds(cell.start)[0]
                (sums,) = self._db.execute(_EARLIER, (*names, first, cell.start))
                cell.earlier = (Cell(limit, first, cell.start, *sums),)
            self._windows[limit] = (cell, cell.start, cell.end, cell.cap)
            found.setdefault(account, []).append(limit)
        for account in found:
            core.add_account(account, found[account])
        return core

    def load_hold(self, path: str, id: str) -> LoadedLedger:
        """Load a hold, if it is known, and return the core's ledger with it."""
        own = id[:1] == "#"
        name = id if own else f"{root(check_path(path))}/{check_key(id)}"
        row = self._db.execute(_KNOWN, (name, self.core.now)).fetchone()
        if row is not None:
            self._hold(row)
        elif own:
            raise UnknownHoldError(path, id)
        return self.core

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others."""
        db = self._db
        core = self.load_accounts(path, past=True)
        (core.account_count,) = db.execute("SELECT accounts FROM ledger").fetchone()
        before = core.counted_limits(path)
        core.set_limits(path, limits)
        after = core.counted_limits(path)
        for limit in before:
            if limit not in after:
                names = (path, limit.axis, limit.window.name)
                db.execute("DELETE" + _OF_LIMIT, names)
                del self._windows[limit]
        for limit in after:
            self._windows.setdefault(limit, None)
        if bool(before) != bool(after):
            more = 1 if after else -1
            db.execute("UPDATE ledger SET accounts = accounts + ?", (more,))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        query = "SELECT DISTINCT account FROM counts WHERE current ORDER BY account"
        return [account for (account,) in self._db.execute(query)]

    def expire(self, most: int) -> int:
        """Settle live holds that are over, up to so many, and save that; return their number."""
        rows = Rows(self._db, self.core)
        over = self._db.execute(_OVER, (self.core.now, most)).fetchall()
        for row in over:
            hold = rows._hold(row)
            self.core.hold(hold.path, hold.id)
        rows.save()
        return len(over)

    def sweep(self, most: int) -> int:
        """As `expire`; and remove settled holds that are no longer kept, up to so many."""
        if self.core.now:
            self._db.execute(_FORGET, (self.core.now, most))
            self._db.execute(_DATE, (self.core.kept_until, most))
        return self.expire(most)

    def save(self, new: Hold | None = None) -> None:
        """Write what the core has changed, and a hold that may be new."""
        db = self._db
        for cell, (number, spent, held) in self._counts.items():
            if cell.spent != spent or cell.held != held:
                db.execute(_UPDATE_COUNT, (cell.spent, cell.held, number))
        for limit, window in self._windows.items():
            cell = limit.cell
            if window != (cell, cell.start, cell.end, cell.cap):
                self._save_window(limit, window and window[0])
        for hold, (number, *before) in self._holds.items():
            if [hold.state, hold.expires] != before:
                actual = None if hold.actual is None else _json(hold.actual)
                due = hold.expires if hold.state == HELD else self.core.kept_until
                db.execute(_UPDATE_HOLD, (hold.state, hold.expires, actual, due, number))
            hold.cells = None
        if new is not None and new not in self._holds:
            self._insert(new)

    def _cell(self, row: Sequence[int], limit: Any = None) -> Cell:
        number, start, end, spent, held, cap = row
        cell = self._cells.get(number)
        if cell is None:
            cell = self._cells[number] = Cell(limit, start, end, spent, held, cap)
            self._counts[cell] = (number, spent, held)
        elif limit is not None:
            cell.limit = limit
        return cell

    def _hold(self, row: Any) -> Hold:
        number, name, path, amounts, counts, state, expires, actual = row
        ids = list(map(int, counts.split()))
        cells: dict[str, tuple[Cell, ...]] = {}
        for *count, axis in self._db.execute(_OF_HOLD % ", ".join("?" * len(ids)), ids):
            cells[axis] = (*cells.get(axis, ()), self._cell(count))
        hold = Hold(
            path,
            name if name[0] == "#" else name.partition("/")[2],
            _decode(amounts)[0],
            state,
            expires,
            actual and _decode(actual)[0],
            cells,
        )
        self._holds[hold] = (number, state, expires)
        self.core.holds[name] = hold
        return hold

    def _save_window(self, limit: CountedLimit, left: Cell | None) -> None:
        """Write the window that a limit is in, and remove those that it does not keep."""
        db, cell = self._db, limit.cell
        for one in [one for one in self._counts if one.limit is limit]:
            number = self._counts[one][0]
            if one is not cell and one not in limit.past:
                db.execute("DELETE FROM counts WHERE id = ?", (number,))
            elif one is cell or one is left:
                db.execute(_UPDATE_WINDOW, (one is cell, one.start, one.end, one.cap, number))
        if cell not in self._counts:
            names = (limit.account, limit.axis, limit.window.name)
            row = (cell.start, cell.end, cell.spent, cell.held, cell.cap, *names)
            self._counts[cell] = (db.execute(_INSERT_COUNT, row).lastrowid or 0, 0, 0)

    def _insert(self, hold: Hold) -> None:
        cells, amounts = hold.cells or {}, _json(hold.amounts)
        ids = " ".join([str(self._counts[cell][0]) for axis in cells for cell in cells[axis]])
        name = hold.id if hold.id[0] == "#" else f"{root(hold.path)}/{hold.id}"
        live = hold.state == HELD
        actual, due = (None, hold.expires) if live else (amounts, self.core.kept_until)
        row = (name, hold.path, amounts, ids, hold.state, hold.expires, actual, due)
        number = self._db.execute(_INSERT_HOLD, row).lastrowid or 0
        hold.cells = None
        if number % SWEEP_EVERY == 0:
            self.sweep(SWEPT)


def _json(amounts: dict[str, int]) -> str:
    return str(amounts).replace("'", '"')  # axes are plain names

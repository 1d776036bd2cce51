"""What one transaction has read of a ledger's file, and writes back where it has changed."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from budget_core.ledger.bucket import Cell, CountedLimit
from budget_core.ledger.limit import MAX_DEPTH
from budget_core.ledger.window import Window
from budget_cpython.ledger.sqlite.limit import StoredLimit

_LIMITS = (
    "SELECT l.id, l.account, l.axis, l.window, c.id, c.starts, c.ends, c.spent, c.held, c.cap,"
    " c.turn FROM limits l JOIN cells c ON c.id = l.cell WHERE l.account IN (%s)"
    " ORDER BY l.account, l.axis, l.window"
)
_CHAINS = [_LIMITS % ", ".join("?" * depth) for depth in range(MAX_DEPTH + 1)]
_CELL = "SELECT id, starts, ends, spent, held, cap, turn FROM cells WHERE id = ?"
_PAST = (
    "SELECT id, starts, ends, spent, held, cap, turn FROM cells"
    " WHERE limit_id = ? AND id != ? ORDER BY turn DESC"
)
_EARLIER = (
    "SELECT coalesce(sum(spent), 0), coalesce(sum(held), 0) FROM cells"
    " WHERE limit_id = ? AND starts >= ? AND starts < ? AND id != ?"
)
_COUNTS = "UPDATE cells SET spent = ?, held = ? WHERE id = ?"
_WHOLE = (
    "UPDATE cells SET starts = ?, ends = ?, spent = ?, held = ?, cap = ?, turn = ? WHERE id = ?"
)
_NEW_CELL = (
    "INSERT INTO cells (limit_id, starts, ends, spent, held, cap, turn)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_NEW_LIMIT = "INSERT INTO limits (account, axis, window, cell) VALUES (?, ?, ?, 0)"
_Row = tuple[int, ...]  # as in _CELL


class CellRows:
    """The limits and cells that were read, each once, with what stood in their rows."""

    def __init__(self, read_window: Callable[[str], Window]) -> None:
        self._read_window = read_window
        self.db: sqlite3.Connection
        self._limits: list[StoredLimit] = []
        self._cells: dict[int, Cell] = {}
        self._rows: dict[Cell, _Row] = {}
        self._named: tuple[dict[str, tuple[Cell, ...]], str] = ({}, "{}")

    def known(self) -> int:
        """How many there are."""
        return len(self._rows)

    def forget(self, db: sqlite3.Connection) -> None:
        """Read everything anew from now on."""
        self.db = db
        self._limits.clear()
        self._cells.clear()
        self._rows.clear()
        self._named = {}, "{}"

    def limits(self, paths: list[str]) -> dict[str, list[CountedLimit]]:
        """Return the limits of those of the paths that are accounts."""
        found: dict[str, list[CountedLimit]] = {}
        for row in self.db.execute(_CHAINS[len(paths)], paths):
            number, account, axis, name = row[:4]
            window = self._read_window(name)
            limit = StoredLimit(self.past, number, account, axis, window, self._cell(row[4:]))
            if limit.window.reach:
                self._reach_back(limit)
            self._limits.append(limit)
            found.setdefault(account, []).append(limit)
        return found

    def _reach_back(self, limit: StoredLimit) -> None:
        """Put one cell in the place of all others that count: they may be many."""
        cell = limit.cell
        first = limit.window.bounds(cell.start)[0]
        place = (limit.id, first, cell.start, self.id(cell))
        spent, held = self.db.execute(_EARLIER, place).fetchone()
        if spent or held:
            cell.earlier = (Cell(limit, first, cell.start, spent, held),)

    def past(self, limit: StoredLimit) -> list[Cell]:
        """Return the cells of a limit's windows that are over."""
        rows = self.db.execute(_PAST, (limit.id, self.id(limit.first)))
        cells = [self._cell(row) for row in rows]
        for cell in cells:
            cell.limit = limit
        return cells

    def cells(self, ids: Iterable[int]) -> tuple[Cell, ...]:
        """Return those of the cells that are still there."""
        found = []
        for number in ids:
            cell = self._cells.get(number)
            if cell is None:
                row = self.db.execute(_CELL, (number,)).fetchone()
                if row is None:
                    continue
                cell = self._cell(row)
            found.append(cell)
        return tuple(found)

    def ids(self, cells: dict[str, tuple[Cell, ...]]) -> str:
        """Return the numbers of cells as JSON."""
        known, text = self._named
        if cells is not known:  # mostly those of the call before
            rows = self._rows
            lists = [f'"{axis}":{[rows[cell][0] for cell in cells[axis]]}' for axis in cells]
            text = "{" + ",".join(lists) + "}"
            self._named = cells, text
        return text

    def id(self, cell: Cell) -> int:
        """Return the number of a cell."""
        return self._rows[cell][0]

    def _cell(self, row: Any) -> Cell:
        cell = self._cells.get(row[0])
        if cell is None:
            cell = self._cells[row[0]] = Cell(_NOBODYS, *row[1:6])
            self._rows[cell] = row
        return cell

    def write_counts(self, cells: dict[str, tuple[Cell, ...]]) -> bool:
        """Write what is spent and held of cells where that changed.

        Returns whether any of it was not in a current cell.
        """
        elsewhere = False
        for axis in cells:
            for cell in cells[axis]:
                row = self._rows.get(cell)
                if row and (cell.spent != row[3] or cell.held != row[4]):
                    self.db.execute(_COUNTS, (cell.spent, cell.held, row[0]))
                    self._rows[cell] = (*row[:3], cell.spent, cell.held, *row[5:])
                    elsewhere = elsewhere or cell.limit is _NOBODYS or cell.limit.cell is not cell
        return elsewhere

    def write(self, paths: Iterable[str], now: dict[str, list[CountedLimit]]) -> None:
        """Write everything, where the accounts of these paths have these limits now."""
        before = {limit.account for limit in self._limits}
        after = {one for limits in now.values() for one in limits}
        for limit in self._limits:
            if limit in after:
                self._write_limit(limit)
            else:
                self.db.execute("DELETE FROM cells WHERE limit_id = ?", (limit.id,))
                self.db.execute("DELETE FROM limits WHERE id = ?", (limit.id,))
        for one in after:
            if not isinstance(one, StoredLimit):
                names = (one.account, one.axis, one.window.name)
                number = self.db.execute(_NEW_LIMIT, names).lastrowid or 0
                self._insert(one.cell, number)
                self._point(number, one.cell)
        more = sum((path in now) - (path in before) for path in paths)
        if more:
            self.db.execute("UPDATE ledger SET accounts = accounts + ?", (more,))

    def _write_limit(self, limit: StoredLimit) -> None:
        if limit.cell is not limit.first:
            turn = 0
            kept = {limit.cell}
            for cell in reversed(limit.past):
                turn = max(turn + 1, self._rows[cell][6])
                self._update(cell, turn)
                kept.add(cell)
            gone = [one for one in self._rows if one.limit is limit and one not in kept]
            ids = [self._rows.pop(one)[:1] for one in gone]
            self.db.executemany("DELETE FROM cells WHERE id = ?", ids)
            if limit.cell not in self._rows:
                self._insert(limit.cell, limit.id)
            self._point(limit.id, limit.cell)
        self._update(limit.cell, 0)

    def _update(self, cell: Cell, turn: int) -> None:
        row = (cell.start, cell.end, cell.spent, cell.held, cell.cap, turn)
        if row != self._rows[cell][1:]:
            number = self.id(cell)
            self.db.execute(_WHOLE, (*row, number))
            self._rows[cell] = (number, *row)

    def _insert(self, cell: Cell, limit: int) -> None:
        row = (cell.start, cell.end, cell.spent, cell.held, cell.cap, 0)
        number = self.db.execute(_NEW_CELL, (limit, *row)).lastrowid or 0
        self._rows[cell] = (number, *row)

    def _point(self, limit: int, cell: Cell) -> None:
        self.db.execute("UPDATE limits SET cell = ? WHERE id = ?", (self.id(cell), limit))


_NOBODYS: Any = None  # a cell that only a hold asked for

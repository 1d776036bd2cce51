"""The holds that one transaction has read or made, and writes to a ledger's file."""

import sqlite3
from json import loads
from typing import Any

from budget_core.account import root
from budget_core.ledger_records import Hold
from budget_cpython.ledger.sqlite.rows import CellRows

STEP = 500  # rows of holds at a time: others wait meanwhile

_FIND = "SELECT path, id, amounts, state, expires, actual, cells, live, due FROM holds"
_INSERT = "INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = "UPDATE holds SET state = ?, expires = ?, actual = ?, live = ?, due = ? WHERE place = ?"
_NEXT = "SELECT place, live, due FROM holds WHERE place > ? ORDER BY place LIMIT ?"


class HoldRows:
    """Holds by their place: the root of the path and the key, or the id where there is no key.

    A settled hold is due to be forgotten `keep_ms` after it was settled; 0 stands for a hold that
    was settled while nobody knew the date.
    """

    def __init__(self, cells: CellRows, keep_ms: int) -> None:
        self.db: sqlite3.Connection
        self._cells = cells
        self._keep_ms = keep_ms
        self._new: list[tuple[Hold, int]] = []
        self._found: dict[str, tuple[Hold, tuple[str, int | None], str | None]] = {}
        self._dues: dict[Hold, int] = {}
        self._live: dict[str, Hold] = {}
        self._swept = ""  # the place that pruning has come to

    @property
    def known(self) -> int:
        """How many there are."""
        return len(self._live)

    def forget(self) -> None:
        """Read everything anew from now on."""
        self._new.clear()
        self._found.clear()
        self._dues.clear()
        self._live.clear()

    def add(self, hold: Hold, now: int) -> None:
        """Keep a new hold, or a charge."""
        self._new.append((hold, hold.expires or self._end_of(now)))

    def settled(self, hold: Hold, now: int) -> None:
        """Note when a hold was settled."""
        self._dues[hold] = self._end_of(now)

    def find(self, place: str, now: int) -> Hold | None:
        """Return a hold that is not forgotten yet."""
        hold = self._live.pop(place, None)
        if hold is not None:
            self._found[place] = (hold, (hold.state, hold.expires), None)
            return hold
        row = self.db.execute(_FIND + " WHERE place = ?", (place,)).fetchone()
        if row is None:
            return None
        if not row[7] and 0 < row[8] <= now:
            self.db.execute("DELETE FROM holds WHERE place = ?", (place,))
            return None
        return self._read(place, row)

    def over(self, now: int) -> list[Hold]:
        """Return some of the live holds that are over by now."""
        where = " WHERE live = 1 AND due <= ? ORDER BY due LIMIT ?"
        rows = self.db.execute(_FIND + where, (now, STEP)).fetchall()
        return [self._read(place_of(row[0], row[1]), row) for row in rows]

    def _read(self, place: str, row: Any) -> Hold:
        path, name, amounts, state, expires, actual, cells, _, due = row
        hold = Hold(path, name, loads(amounts), state, expires, actual and loads(actual))
        self._found[place] = (hold, (state, expires), cells)
        self._dues[hold] = due
        return hold

    def open_cells(self, hold: Hold) -> None:
        """Read the cells that a hold counts in."""
        *_, cells = self._found[place_of(hold.path, hold.id)]
        if cells is not None:
            read = self._cells.cells
            hold.cells = {axis: read(ids) for axis, ids in loads(cells).items()}
        self._cells.touch(hold.cells or {})

    def write(self) -> bool:
        """Write what is new or changed; return if anything was."""
        changed = bool(self._new)
        for hold, due in self._new:
            self._insert(hold, due)
        for place, (hold, was, _) in self._found.items():
            if was != (hold.state, hold.expires):
                self._update(place, hold)
                changed = True
            hold.cells = None
        self._new.clear()
        self._found.clear()
        self._dues.clear()
        return changed

    def _insert(self, hold: Hold, due: int) -> None:
        place, path, name, cells = (
            place_of(hold.path, hold.id),
            hold.path,
            hold.id,
            hold.cells or {},
        )
        amounts, live, ids = _amounts(hold.amounts), hold.state == hold.HELD, self._cells.ids(cells)
        actual = None if live else amounts
        row = (place, path, name, amounts, hold.state, hold.expires, actual, ids, live, due)
        self.db.execute(_INSERT, row)
        hold.cells = None
        if live:
            own = dict(hold.amounts)
            self._live[place] = Hold(path, name, own, hold.state, hold.expires, None, cells)

    def _update(self, place: str, hold: Hold) -> None:
        live = hold.state == hold.HELD
        actual = None if hold.actual is None else _amounts(hold.actual)
        due = (hold.expires or 0) if live else self._dues[hold]
        self.db.execute(_UPDATE, (hold.state, hold.expires, actual, live, due, place))

    def prune(self, now: int, most: int) -> None:
        """Look at the next rows, in the order of their places, and remove what is due of them.

        An index of what is due would cost each settlement another page.
        """
        rows = self.db.execute(_NEXT, (self._swept, most)).fetchall()
        self._swept = rows[-1][0] if len(rows) == most else ""
        settled = [(place, due) for place, live, due in rows if now and not live]
        gone = [(place,) for place, due in settled if 0 < due <= now]
        dated = [(self._end_of(now), place) for place, due in settled if not due]
        self.db.executemany("DELETE FROM holds WHERE place = ?", gone)
        self.db.executemany("UPDATE holds SET due = ? WHERE place = ?", dated)

    def _end_of(self, now: int) -> int:
        return now and now + self._keep_ms


def _amounts(amounts: dict[str, int]) -> str:
    """Return JSON; axes are plain names."""
    return "{" + ",".join([f'"{axis}":{amounts[axis]}' for axis in amounts]) + "}"


def place_of(path: str, id: str) -> str:
    """Return where a hold is kept."""
    return id if id[0] == "#" else f"{root(path)}/{id}"

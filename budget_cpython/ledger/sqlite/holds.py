"""The holds that one transaction has read or made, and writes to a ledger's file."""

import secrets
import sqlite3
from json import loads
from typing import Any

from budget_core.ledger.bucket import HELD, Cell
from budget_core.ledger.limit import root
from budget_core.ledger.records import Hold
from budget_cpython.ledger.sqlite.rows import CellRows

STEP = 500  # rows of holds at a time: others wait meanwhile
YOUNG = 256  # holds that are looked through for those that are over, rather than indexed

_FIND = "SELECT number, place, token, path, amounts, cells, state, expires, actual, due FROM holds"
_NUMBERED = _FIND + " WHERE number = ? AND token != ''"
_KEYED = _FIND + " WHERE place = ?"
_OLD_OVER = _FIND + " WHERE old AND state = 'held' AND due <= ? ORDER BY due LIMIT ?"
_YOUNG_OVER = _FIND + " WHERE number > ? AND state = 'held' AND due <= ? LIMIT ?"
_GROWN_UP = "UPDATE holds SET old = 1 WHERE number > ? AND state = 'held'"
_MARK = "UPDATE ledger SET passed = ?"
_PRUNED = "UPDATE ledger SET pruned = ?"
_LAST = "SELECT passed, pruned, (SELECT max(number) FROM holds) FROM ledger"
_INSERT = "INSERT INTO holds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)"
_UPDATE = "UPDATE holds SET state = ?, expires = ?, actual = ?, due = ? WHERE number = ?"
_FREE_KEY = "UPDATE holds SET place = NULL WHERE number = ?"
_FIRST = "SELECT min(number) FROM holds WHERE number > ?"
_PRUNE = (
    "DELETE FROM holds"
    " WHERE number >= ? AND number < ? AND state != 'held' AND due > 0 AND due <= ?"
)
_DATE = "UPDATE holds SET due = ? WHERE number >= ? AND number < ? AND state != 'held' AND due = 0"
_Found = tuple[Hold, int, tuple[str, "int | None"], "str | None"]


class HoldRows:
    """Holds by their place: the root of the path and the key, or the id where there is no key.

    They are numbered in the order they were taken in, and the last one is never removed, so that no
    number comes twice. A settled hold is due to be forgotten `keep_ms` after it was settled; 0
    stands for a hold that was settled while nobody knew the date.
    """

    def __init__(self, cells: CellRows, keep_ms: int) -> None:
        self.db: sqlite3.Connection
        self._cells = cells
        self._keep_ms = keep_ms
        self._token = ""
        self.last = 0
        self._passed = 0  # no hold up to here is live, but for those that are indexed
        self._new: list[tuple[Hold, int]] = []
        self._found: dict[str, _Found] = {}
        self._dues: dict[Hold, int] = {}
        self._live: dict[str, tuple[Hold, int]] = {}
        self._pruned = 0  # the number that pruning has come to, whoever did it

    def known(self) -> int:
        """How many there are."""
        return len(self._live)

    def forget(self, db: sqlite3.Connection) -> None:
        """Read everything anew from now on."""
        self.db = db
        self._new.clear()
        self._found.clear()
        self._dues.clear()
        self._live.clear()
        self._passed, self._pruned, last = db.execute(_LAST).fetchone()
        self.last = last or 0
        self._token = secrets.token_hex(4)  # a forked process must have its own

    def new_id(self) -> str:
        """Return the id of the next hold that has no key."""
        return f"#{self._token}-{self.last + 1}"

    def add(self, hold: Hold, now: int) -> None:
        """Keep a new hold, or a charge."""
        self._new.append((hold, hold.expires or self._end_of(now)))

    def settled(self, hold: Hold, now: int) -> None:
        """Note when a hold was settled."""
        self._dues[hold] = self._end_of(now)

    def find(self, place: str, now: int) -> Hold | None:
        """Return a hold that is not forgotten yet."""
        live = self._live.pop(place, None)
        if live is not None:
            hold, number = live
            self._found[place] = (hold, number, (hold.state, hold.expires), None)
            return hold
        if place[0] == "#":
            digits = place.partition("-")[2]
            number = int(digits) if digits.isdecimal() and len(digits) < 19 else 0
            row = self.db.execute(_NUMBERED, (number,)).fetchone()
            if row is None or _id(row) != place:
                return None
        else:
            row = self.db.execute(_KEYED, (place,)).fetchone()
            if row is None:
                return None
        if row[6] != HELD and 0 < row[9] <= now:
            self.db.execute(_FREE_KEY, row[:1])
            return None
        return self._read(row)

    def are_many(self) -> bool:
        """Whether so many came since anybody looked for those that are over."""
        return self.last - self._passed > YOUNG

    def over(self, now: int) -> list[Hold]:
        """Return some of the live holds that are over by now.

        An index of all would cost each of them two more pages. Most are settled soon; those that
        still are live among many younger ones are indexed.
        """
        if self.are_many():
            self.db.execute(_GROWN_UP, (self._passed,))
            self._passed = self.last
            self.db.execute(_MARK, (self._passed,))
        rows = self.db.execute(_OLD_OVER, (now, STEP)).fetchall()
        young = (self._passed, now, STEP - len(rows))
        rows += self.db.execute(_YOUNG_OVER, young).fetchall()
        return [self._read(row) for row in rows]

    def _read(self, row: Any) -> Hold:
        number, place, _, path, amounts, cells, state, expires, actual, due = row
        name = _id(row) if place is None else place[len(root(path)) + 1 :]
        hold = Hold(path, name, loads(amounts), state, expires, actual and loads(actual))
        self._found[place or name] = (hold, number, (state, expires), cells)
        self._dues[hold] = due
        return hold

    def open_cells(self, hold: Hold) -> None:
        """Read the cells that a hold counts in."""
        *_, cells = self._found[place_of(hold.path, hold.id)]
        if cells is not None:
            read = self._cells.cells
            hold.cells = {axis: read(ids) for axis, ids in loads(cells).items()}

    def write(self) -> list[dict[str, tuple[Cell, ...]]]:
        """Write what is new or changed; return the cells that it counts in, of each hold."""
        changed = []
        if self._new:
            for hold, due in self._new:
                changed.append(hold.cells or {})
                self._insert(hold, due)
            self._new.clear()
        if self._found:
            for hold, number, was, _ in self._found.values():
                if was != (hold.state, hold.expires):
                    changed.append(hold.cells or {})
                    self._update(number, hold)
                hold.cells = None
            self._found.clear()
            self._dues.clear()
        return changed

    def _insert(self, hold: Hold, due: int) -> None:
        path, name, state, cells = hold.path, hold.id, hold.state, hold.cells or {}
        keyed = name[0] != "#"
        place = f"{root(path)}/{name}" if keyed else None
        amounts, ids = _amounts(hold.amounts), self._cells.ids(cells)
        actual = None if state == HELD else amounts
        self.last = number = self.last + 1
        token = "" if keyed else self._token
        row = (number, place, token, path, amounts, ids, state, hold.expires, actual, due)
        self.db.execute(_INSERT, row)
        hold.cells = None
        if state == HELD:
            own = Hold(path, name, dict(hold.amounts), state, hold.expires, None, cells)
            self._live[place or name] = (own, number)

    def _update(self, number: int, hold: Hold) -> None:
        actual = None if hold.actual is None else _amounts(hold.actual)
        due = (hold.expires or 0) if hold.state == HELD else self._dues[hold]
        self.db.execute(_UPDATE, (hold.state, hold.expires, actual, due, number))

    def prune(self, now: int, most: int) -> None:
        """Look at the next rows, in the order of their numbers, and remove what is due of them."""
        (first,) = self.db.execute(_FIRST, (self._pruned,)).fetchone()
        end = self.last + 1 if first is None else first + most
        if now and first is not None:
            self.db.execute(_PRUNE, (first, min(end, self.last), now))
            self.db.execute(_DATE, (self._end_of(now), first, end))
        pruned = end - 1 if end <= self.last else 0
        if pruned != self._pruned:
            self.db.execute(_PRUNED, (pruned,))
            self._pruned = pruned

    def _end_of(self, now: int) -> int:
        return now and now + self._keep_ms


def _amounts(amounts: dict[str, int]) -> str:
    """Return JSON; axes are plain names."""
    return "{" + ",".join([f'"{axis}":{amounts[axis]}' for axis in amounts]) + "}"


def _id(row: Any) -> str:
    return f"#{row[2]}-{row[0]}"


def place_of(path: str, id: str) -> str:
    """Return where a hold is kept."""
    return id if id[0] == "#" else f"{root(path)}/{id}"

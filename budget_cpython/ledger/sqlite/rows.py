"""The statements that read and write a ledger's rows, and the checksum of each row."""

import sqlite3
from collections.abc import Sequence
from json import JSONDecoder
from typing import Any
from zlib import crc32

_AT_ONCE = 500  # values of one statement: SQLite takes 32,766

_BUCKET = "SELECT id, crc, account, axis, window, current, starts, ends, spent, held, cap"
CURRENT = _BUCKET + " FROM buckets WHERE current AND account IN (%s) ORDER BY account, axis, window"
CURRENT_OF = _BUCKET + " FROM buckets WHERE current AND {} ORDER BY account, axis, window"
_OF_LIMIT = " FROM buckets WHERE account = ? AND axis = ? AND window = ?"
PAST = _BUCKET + _OF_LIMIT + " AND NOT current ORDER BY starts DESC"
EARLIER = _BUCKET + _OF_LIMIT + " AND starts >= ? AND starts < ?"
SUMS = "SELECT spent, held" + _OF_LIMIT + " AND starts >= ? AND starts <= ?"
OF_HOLDS = _BUCKET + " FROM buckets WHERE id IN (%s)"
UPDATE_BUCKET = "UPDATE buckets SET crc = ?, spent = ?, held = ? WHERE id = ?"
UPDATE_WINDOW = (
    "UPDATE buckets SET crc = ?, current = ?, starts = ?, ends = ?, cap = ? WHERE id = ?"
)
INSERT_BUCKET = (
    "INSERT INTO buckets (crc, account, axis, window, current, starts, ends, spent, held, cap)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DELETE_LIMIT = "DELETE" + _OF_LIMIT

_HOLD = ", crc, name, path, amounts, buckets, state, expires, actual FROM holds"
KNOWN = "SELECT number" + _HOLD + " WHERE (state = 'held' OR due = 0 OR due > ?) AND name IN (%s)"
OVER = "SELECT number" + _HOLD + " WHERE state = 'held' AND due <= ? ORDER BY due LIMIT ?"
OPEN = "SELECT taken" + _HOLD + " WHERE state = 'held' AND {} ORDER BY taken, number LIMIT ?"
INSERT_HOLD = (  # in the place of one of that name that is forgotten
    "INSERT OR REPLACE INTO holds"
    " (crc, name, path, amounts, buckets, state, expires, actual, due, taken)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
UPDATE_HOLD = (
    "UPDATE holds SET crc = ?, state = ?, expires = ?, actual = ?, due = ? WHERE number = ?"
)
FORGET = (
    "DELETE FROM holds WHERE number IN"
    " (SELECT number FROM holds WHERE state != 'held' AND due > 0 AND due <= ? LIMIT ?)"
)
DATE = (
    "UPDATE holds SET due = ? WHERE number IN"
    " (SELECT number FROM holds WHERE state != 'held' AND due = 0 LIMIT ?)"
)
TOTALS = "SELECT 0, crc, accounts FROM totals"
UPDATE_TOTALS = "UPDATE totals SET crc = ?, accounts = ?"
ACCOUNTS = "SELECT DISTINCT account FROM buckets WHERE current ORDER BY account"

decode = JSONDecoder().raw_decode


def crc(columns: list[Any]) -> int:
    """Return the checksum of a row's columns."""
    return crc32(repr(columns).encode())


def read(
    db: sqlite3.Connection, statement: str, *given: Any, among: Sequence[Any] = ()
) -> list[tuple[int, list[Any]]]:
    """Return each row's first column, and those of its checksum, which must be right.

    The values `among` which its key is are for the statement's `%s`.
    """
    found = []
    for at in range(0, max(1, len(among)), _AT_ONCE):
        some = among[at : at + _AT_ONCE]
        text = statement % ", ".join("?" * len(some)) if some else statement
        for number, check, *columns in db.execute(text, (*given, *some)):
            if check != crc32(repr(columns).encode()):
                raise sqlite3.DatabaseError(f"row {number} does not have its checksum")
            found.append((number, columns))
    return found


def as_json(amounts: dict[str, int]) -> str:
    """Return amounts as they are kept."""
    return str(amounts).replace("'", '"')  # axes are plain names

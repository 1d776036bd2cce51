"""The statements that read and write a ledger's rows, and the checksum of each row."""

import sqlite3
from collections.abc import Sequence
from json import JSONDecoder
from typing import Any
from zlib import crc32

from budget_core.ledger.checks import MAX_DEPTH, MOST

BUCKET = "SELECT id, crc, account, axis, window, current, starts, ends, spent, held, cap"
_CURRENT = BUCKET + (
    " FROM buckets WHERE current AND account IN (%s) ORDER BY account, axis, window"
)
CHAINS = [_CURRENT % ", ".join("?" * depth) for depth in range(MAX_DEPTH + 1)]
_OF_LIMIT = " FROM buckets WHERE account = ? AND axis = ? AND window = ?"
PAST = BUCKET + _OF_LIMIT + " AND NOT current ORDER BY starts DESC"
EARLIER = BUCKET + _OF_LIMIT + " AND starts >= ? AND starts < ?"
SUMS = "SELECT spent, held" + _OF_LIMIT + " AND starts >= ? AND starts <= ?"
OF_HOLD = BUCKET + " FROM buckets WHERE id IN (%s)"
UPDATE_BUCKET = "UPDATE buckets SET crc = ?, spent = ?, held = ? WHERE id = ?"
UPDATE_WINDOW = (
    "UPDATE buckets SET crc = ?, current = ?, starts = ?, ends = ?, cap = ? WHERE id = ?"
)
INSERT_BUCKET = (
    "INSERT INTO buckets (crc, account, axis, window, current, starts, ends, spent, held, cap)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DELETE_LIMIT = "DELETE" + _OF_LIMIT

_HOLD = "SELECT number, crc, name, path, amounts, buckets, state, expires, actual FROM holds"
KNOWN = _HOLD + " WHERE name = ? AND (state = 'held' OR due = 0 OR due > ?)"
OVER = _HOLD + " WHERE state = 'held' AND due <= ? ORDER BY due LIMIT ?"
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


def checked(row: Sequence[Any]) -> list[Any]:
    """Return a row's columns but for its number and checksum, which must be right."""
    _, found, *columns = row
    if found != crc(columns):
        raise sqlite3.DatabaseError(f"row {row[0]} does not have its checksum")
    return columns


def as_column(value: int) -> int | str:
    """Return a sum as it is kept."""
    return value if value <= MOST else str(value)


def as_json(amounts: dict[str, int]) -> str:
    """Return amounts as they are kept."""
    return str(amounts).replace("'", '"')  # axes are plain names

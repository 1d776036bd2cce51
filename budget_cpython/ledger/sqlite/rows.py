"""Load what an operation needs of a ledger's file into the core's ledger, and save it again."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from json import JSONDecoder
from typing import Any
from zlib import crc32

from budget_core.ledger.bucket import HELD, Bucket, CountedLimit
from budget_core.ledger.errors import UnknownHoldError
from budget_core.ledger.limit import MAX_DEPTH, MOST, Limit, chain, check_key, check_path, root
from budget_core.ledger.records import Hold
from budget_cpython.ledger.sqlite.loaded_ledger import LoadedLedger

SWEEP_EVERY = 32  # holds, whichever process takes them: programs may be short
SWEPT = 128  # holds at a time: more than come meanwhile

_BUCKET = "SELECT id, crc, account, axis, window, current, starts, ends, spent, held, cap"
_CURRENT = _BUCKET + (
    " FROM buckets WHERE current AND account IN (%s) ORDER BY account, axis, window"
)
_CHAINS = [_CURRENT % ", ".join("?" * depth) for depth in range(MAX_DEPTH + 1)]
_OF_LIMIT = " FROM buckets WHERE account = ? AND axis = ? AND window = ?"
_PAST = _BUCKET + _OF_LIMIT + " AND NOT current ORDER BY starts DESC"
_EARLIER = _BUCKET + _OF_LIMIT + " AND starts >= ? AND starts < ?"
_OF_HOLD = _BUCKET + " FROM buckets WHERE id IN (%s)"
_UPDATE_BUCKET = "UPDATE buckets SET crc = ?, spent = ?, held = ? WHERE id = ?"
_UPDATE_WINDOW = (
    "UPDATE buckets SET crc = ?, current = ?, starts = ?, ends = ?, cap = ? WHERE id = ?"
)
_INSERT_BUCKET = (
    "INSERT INTO buckets (crc, account, axis, window, current, starts, ends, spent, held, cap)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_HOLD = "SELECT number, crc, name, path, amounts, buckets, state, expires, actual FROM holds"
_KNOWN = _HOLD + " WHERE name = ? AND (state = 'held' OR due = 0 OR due > ?)"
_OVER = _HOLD + " WHERE state = 'held' AND due <= ? ORDER BY due LIMIT ?"
_INSERT_HOLD = (  # in the place of one of that name that is forgotten
    "INSERT OR REPLACE INTO holds"
    " (crc, name, path, amounts, buckets, state, expires, actual, due)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_HOLD = (
    "UPDATE holds SET crc = ?, state = ?, expires = ?, actual = ?, due = ? WHERE number = ?"
)
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
        self._by_id: dict[int, Bucket] = {}
        self._loaded: dict[Bucket, tuple[int, list[Any]]] = {}  # id, and the columns as loaded
        self._windows: dict[CountedLimit, Any] = {}  # the current bucket as loaded
        self._holds: dict[Hold, tuple[int, list[Any]]] = {}  # number, and the columns as loaded

    def load_accounts(self, path: str, key: str | None = None, past: bool = False) -> LoadedLedger:
        """Load the accounts of a path and all above it, and return the core's ledger with them.

        With a `key`, its hold is loaded too; with `past`, all windows of the limits.
        """
        core = self.core
        if key is not None:
            self.load_hold(path, check_key(key))
        paths = _chain(path) if isinstance(path, str) else chain(check_path(path))
        found: dict[str, list[CountedLimit]] = {}
        for row in self._db.execute(_CHAINS[len(paths)], paths).fetchall():
            account, axis, name = names = _checked(row)[:3]
            limit = CountedLimit(account, axis, core.parse_window(name))
            limit.bucket = bucket = self._bucket(row, limit)
            if past or core.now >= bucket.end:
                limit.past = [self._bucket(row, limit) for row in self._db.execute(_PAST, names)]
            elif limit.window.reach:  # one stands for all that still count: they may be many
                first = limit.window.bounds(bucket.start)[0]
                earlier = Bucket(limit, first, bucket.start)
                for one in self._db.execute(_EARLIER, (*names, first, bucket.start)):
                    *_, spent, held, _ = _checked(one)
                    earlier.spent += int(spent)
                    earlier.held += int(held)
                bucket.earlier = (earlier,)
            self._windows[limit] = (bucket, bucket.start, bucket.end, bucket.cap)
            found.setdefault(account, []).append(limit)
        core.limits_by_path.update(found)
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
        row = db.execute("SELECT 0, crc, accounts FROM totals").fetchone()
        (core.account_count,) = _checked(row)
        before = core.limits_by_path.get(path, [])
        core.set_limits(path, limits)
        after = core.limits_by_path.get(path, [])
        for limit in before:
            if limit not in after:
                names = (path, limit.axis, limit.window.name)
                db.execute("DELETE" + _OF_LIMIT, names)
                del self._windows[limit]
        for limit in after:
            self._windows.setdefault(limit, None)
        if bool(before) != bool(after):
            count = core.account_count + (1 if after else -1)
            db.execute("UPDATE totals SET crc = ?, accounts = ?", (_crc([count]), count))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        query = "SELECT DISTINCT account FROM buckets WHERE current ORDER BY account"
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
        for bucket, (number, row) in self._loaded.items():
            sums = [_sum(bucket.spent), _sum(bucket.held)]
            if sums != row[6:8]:
                row[6:8] = sums
                db.execute(_UPDATE_BUCKET, (_crc(row), *sums, number))
        for limit, window in self._windows.items():
            bucket = limit.bucket
            if window != (bucket, bucket.start, bucket.end, bucket.cap):
                self._save_window(limit, window and window[0])
        for hold, (number, row) in self._holds.items():
            if [hold.state, hold.expires_ms] != row[4:6]:
                actual = None if hold.actual is None else _json(hold.actual)
                due = hold.expires_ms if hold.state == HELD else self.core.kept_until
                row[4:] = changed = [hold.state, hold.expires_ms, actual]
                db.execute(_UPDATE_HOLD, (_crc(row), *changed, due, number))
            hold.buckets = None
        if new is not None and new not in self._holds:
            self._insert(new)

    def _bucket(self, row: Sequence[Any], limit: Any = None) -> Bucket:
        number = row[0]
        bucket = self._by_id.get(number)
        if bucket is None:
            columns = _checked(row)
            start, end, spent, held, cap = columns[4:]
            bucket = self._by_id[number] = Bucket(limit, start, end, int(spent), int(held), cap)
            self._loaded[bucket] = (number, columns)
        elif limit is not None:
            bucket.limit = limit
        return bucket

    def _hold(self, row: Any) -> Hold:
        columns = _checked(row)
        name, path, amounts, numbers, state, expires, actual = columns
        ids = list(map(int, numbers.split()))
        amounts, actual = _decode(amounts)[0], actual and _decode(actual)[0]
        buckets: dict[str, tuple[Bucket, ...]] = {}
        for one in self._db.execute(_OF_HOLD % ", ".join("?" * len(ids)), ids):
            bucket, axis = self._bucket(one), one[3]
            buckets[axis] = (*buckets.get(axis, ()), bucket)
        hold = Hold(
            path,
            name if name[0] == "#" else name.partition("/")[2],
            amounts,
            state,
            expires,
            actual,
            buckets,
        )
        self._holds[hold] = (row[0], columns)
        self.core.holds[name] = hold
        return hold

    def _save_window(self, limit: CountedLimit, left: Bucket | None) -> None:
        """Write the window that a limit is in, and remove those that it does not keep."""
        db, bucket = self._db, limit.bucket
        for one in [one for one in self._loaded if one.limit is limit]:
            number, row = self._loaded[one]
            if one is not bucket and one not in limit.past:
                db.execute("DELETE FROM buckets WHERE id = ?", (number,))
            elif one is bucket or one is left:
                row[3:6], row[8] = [int(one is bucket), one.start, one.end], one.cap
                db.execute(_UPDATE_WINDOW, (_crc(row), *row[3:6], one.cap, number))
        if bucket not in self._loaded:
            row = [limit.account, limit.axis, limit.window.name, 1, bucket.start, bucket.end]
            row += [_sum(bucket.spent), _sum(bucket.held), bucket.cap]
            number = db.execute(_INSERT_BUCKET, (_crc(row), *row)).lastrowid or 0
            self._loaded[bucket] = (number, row)

    def _insert(self, hold: Hold) -> None:
        buckets, amounts = hold.buckets or {}, _json(hold.amounts)
        ids = " ".join(
            [str(self._loaded[bucket][0]) for axis in buckets for bucket in buckets[axis]]
        )
        name = hold.id if hold.id[0] == "#" else f"{root(hold.path)}/{hold.id}"
        live = hold.state == HELD
        actual, due = (None, hold.expires_ms) if live else (amounts, self.core.kept_until)
        row = [name, hold.path, amounts, ids, hold.state, hold.expires_ms, actual]
        number = self._db.execute(_INSERT_HOLD, (_crc(row), *row, due)).lastrowid or 0
        hold.buckets = None
        if number % SWEEP_EVERY == 0:
            self.sweep(SWEPT)


def _crc(columns: list[Any]) -> int:
    return crc32(repr(columns).encode())


def _checked(row: Sequence[Any]) -> list[Any]:
    """Return a row's columns but for its number and checksum, which must be right."""
    _, crc, *columns = row
    if crc != _crc(columns):
        raise sqlite3.DatabaseError(f"row {row[0]} does not have its checksum")
    return columns


def _sum(value: int) -> int | str:
    return value if value <= MOST else str(value)


def _json(amounts: dict[str, int]) -> str:
    return str(amounts).replace("'", '"')  # axes are plain names

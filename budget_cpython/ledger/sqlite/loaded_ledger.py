"""Let the core's ledger decide about accounts and holds that are kept in a file."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from budget_core.ledger import memory
from budget_core.ledger.bucket import HELD, Bucket
from budget_core.ledger.checks import chain, check_path, root
from budget_core.ledger.counted_limit import CountedLimit
from budget_core.ledger.errors import LedgerError, UnknownHoldError
from budget_core.ledger.limit import Limit
from budget_core.ledger.records import Balance, Hold, check_hold
from budget_cpython.ledger.sqlite import rows
from budget_cpython.ledger.windows import Window

SWEEP_EVERY = 32  # holds, whichever process takes them: programs may be short
SWEPT = 128  # holds at a time: more than come meanwhile
STEP = 500  # holds that expire in one transaction: others wait meanwhile
READS = (
    "balance",
    "history",
    "balances",
    "open_holds",
)  # operations before which nothing may be left to expire


class LoadedLedger(memory.Ledger):
    """The core's ledger, with no accounts and holds but those that one operation looks for.

    They are loaded from a file, and saved where they have changed. The clock stands still during an
    operation. One thread at a time uses it.
    """

    def __init__(
        self, clock: Callable[[], float], windows: Callable[[Any], Window], **options: Any
    ) -> None:
        super().__init__(clock, Lock(), windows=lru_cache(64)(windows), **options)
        self._db: sqlite3.Connection

    def perform(self, db: sqlite3.Connection, operation: str, arguments: tuple[Any, ...]) -> Any:
        """Do an operation on a file; `None` if it is to be done again, after a commit."""
        self._db = db
        self._begin()
        if operation in READS and self._expire_some(STEP) == STEP:
            return None
        try:
            found = getattr(self, operation)(*arguments)
        except LedgerError:
            self._save()  # a refusal may have moved windows on
            raise
        self._save(found if isinstance(found, Hold) else None)
        return found

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others."""
        self._load_accounts(chain(check_path(path)), past=True)
        before = self._accounts.get(path, [])
        super().set_limits(path, limits)
        after = self._accounts.get(path, [])
        for limit in before:
            if limit not in after:
                names = (path, limit.axis, limit.window.name)
                self._db.execute(rows.DELETE_LIMIT, names)
                del self._windows[limit]
        for limit in after:
            self._windows.setdefault(limit, None)
        if bool(before) != bool(after):
            count = self._count_accounts() + (1 if after else -1)
            self._db.execute(rows.UPDATE_TOTALS, (rows.crc([count]), count))

    def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        self._load_accounts(chain(check_path(path)))
        return super().limits(path)

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return [account for (account,) in self._db.execute(rows.ACCOUNTS)]

    def history(self, path: str) -> list[Balance]:
        """Return the counts of an account's own limits in windows that are over."""
        self._load_accounts(chain(check_path(path)), past=True)
        return super().history(path)

    def expire(self) -> int:
        """Settle holds that are over, and forget old ones; return how many were over."""
        return self._sweep(STEP)

    def _begin(self) -> None:
        """Forget what is loaded, and read the clock."""
        for known in (self._accounts, self._live, self._settled, self._former):
            known.clear()
        self._by_id: dict[int, Bucket] = {}
        self._loaded: dict[Bucket, tuple[int, list[Any]]] = {}  # id, and the columns as loaded
        self._windows: dict[CountedLimit, Any] = {}  # the current bucket as loaded
        self._holds: dict[Hold, tuple[int, list[Any]]] = {}  # number, and the columns as loaded
        self._time = now = super()._now()
        self._kept_until = now and now + self._keep_ms  # of what is settled now; 0 without a date

    def _now(self) -> int:
        return self._time

    def _new_id(self) -> str:
        return f"#{self._time:x}-{os.urandom(6).hex()}"  # in order, which keeps an index small

    def _count_accounts(self) -> int:
        (count,) = rows.checked(self._db.execute(rows.TOTALS).fetchone())
        return int(count)

    def _paths(self, path: str) -> list[str]:
        paths = chain(path)
        if not self._accounts:
            self._load_accounts(paths)
        return paths

    def _find(self, hold: Hold) -> Hold:
        if check_hold(hold).id[:1] == "#" and self._look_up(hold.id) is None:
            raise UnknownHoldError(hold.path, hold.id)
        return super()._find(hold)

    def _look_up(self, name: str) -> Hold | None:
        row = self._db.execute(rows.KNOWN, (name, self._time)).fetchone()
        return row and self._load_hold(row)

    def _sweep(self, most: int) -> int:
        """Remove settled holds that are no longer kept, and settle live ones that are over."""
        if self._time:
            self._db.execute(rows.FORGET, (self._time, most))
            self._db.execute(rows.DATE, (self._kept_until, most))
        return self._expire_some(most)

    def _expire_some(self, most: int) -> int:
        """Settle live holds that are over, up to so many, and save that; return their number."""
        self._begin()
        over = self._db.execute(rows.OVER, (self._time, most)).fetchall()
        for row in over:
            self._expire_one(self._load_hold(row), self._time)
        self._save()
        return len(over)

    def _load_accounts(self, paths: list[str], past: bool = False) -> None:
        """Load the accounts of a path and of all above it; with `past`, all windows."""
        for row in self._db.execute(rows.CHAINS[len(paths)], paths).fetchall():
            bucket = self._bucket(row)
            names = account, axis, name = row[2:5]
            limit = CountedLimit(account, axis, self._reader.window(name), bucket)
            if past or self._time >= bucket.end:
                limit.past = [self._bucket(one) for one in self._db.execute(rows.PAST, names)]
            elif limit.window.reach:  # one stands for all that still count: they may be many
                first = limit.window.bounds(bucket.start)[0]
                earlier = Bucket(names, first, bucket.start)
                bucket.earlier = [earlier]
                for one in self._db.execute(rows.EARLIER, (*names, first, bucket.start)):
                    if one[0] in self._by_id:  # a hold's, which may be settled before
                        bucket.earlier.append(self._by_id[one[0]])
                        continue
                    *_, spent, held, _ = rows.checked(one)
                    earlier.spent += int(spent)
                    earlier.held += int(held)
            self._windows[limit] = (bucket, bucket.start, bucket.end, bucket.cap)
            self._accounts.setdefault(account, []).append(limit)

    def _bucket(self, row: Sequence[Any]) -> Bucket:
        number = row[0]
        bucket = self._by_id.get(number)
        if bucket is None:
            columns = rows.checked(row)
            start, end, spent, held, cap = columns[4:]
            place = tuple(columns[:3])
            bucket = self._by_id[number] = Bucket(place, start, end, int(spent), int(held), cap)
            self._loaded[bucket] = (number, columns)
        return bucket

    def _load_hold(self, row: Any) -> Hold:
        columns = rows.checked(row)
        name, path, amounts, numbers, state, expires, actual = columns
        ids = list(map(int, numbers.split()))
        amounts, actual = rows.decode(amounts)[0], actual and rows.decode(actual)[0]
        buckets: dict[str, tuple[Bucket, ...]] = {}
        for one in self._db.execute(rows.OF_HOLD % ", ".join("?" * len(ids)), ids):
            bucket, axis = self._bucket(one), one[3]
            buckets[axis] = (*buckets.get(axis, ()), bucket)
        key = name if name[0] == "#" else name.partition("/")[2]
        hold = Hold(path, key, amounts, state, expires, actual, buckets)
        self._holds[hold] = (row[0], columns)
        self._live[name] = hold
        return hold

    def _save(self, new: Hold | None = None) -> None:
        """Write what has changed, and a hold that may be new."""
        db = self._db
        for bucket, (number, row) in self._loaded.items():
            sums = [rows.as_column(bucket.spent), rows.as_column(bucket.held)]
            if sums != row[6:8]:
                row[6:8] = sums
                db.execute(rows.UPDATE_BUCKET, (rows.crc(row), *sums, number))
        for limit, window in self._windows.items():
            bucket = limit.bucket
            if window != (bucket, bucket.start, bucket.end, bucket.cap):
                self._save_window(limit, window and window[0])
        for hold, (number, row) in self._holds.items():
            if [hold.state, hold.expires_ms] != row[4:6]:
                actual = None if hold.actual is None else rows.as_json(hold.actual)
                due = hold.expires_ms if hold.state == HELD else self._kept_until
                row[4:] = changed = [hold.state, hold.expires_ms, actual]
                db.execute(rows.UPDATE_HOLD, (rows.crc(row), *changed, due, number))
            hold.buckets = None
        if new is not None and new not in self._holds:
            self._insert(new)

    def _save_window(self, limit: CountedLimit, left: Bucket | None) -> None:
        """Write the window that a limit is in, and remove those that it does not keep."""
        db, bucket = self._db, limit.bucket
        for one in [one for one in self._loaded if one.place == limit.place]:
            number, row = self._loaded[one]
            if one is not bucket and one not in limit.past:
                db.execute("DELETE FROM buckets WHERE id = ?", (number,))
            elif one is bucket or one is left:
                row[3:6], row[8] = [int(one is bucket), one.start, one.end], one.cap
                db.execute(rows.UPDATE_WINDOW, (rows.crc(row), *row[3:6], one.cap, number))
        if bucket not in self._loaded:
            row = [limit.account, limit.axis, limit.window.name, 1, bucket.start, bucket.end]
            row += [rows.as_column(bucket.spent), rows.as_column(bucket.held), bucket.cap]
            number = db.execute(rows.INSERT_BUCKET, (rows.crc(row), *row)).lastrowid or 0
            self._loaded[bucket] = (number, row)

    def _insert(self, hold: Hold) -> None:
        buckets, amounts = hold.buckets or {}, rows.as_json(hold.amounts)
        ids = " ".join(
            [str(self._loaded[bucket][0]) for axis in buckets for bucket in buckets[axis]]
        )
        name = hold.id if hold.id[0] == "#" else f"{root(hold.path)}/{hold.id}"
        live = hold.state == HELD
        actual, due = (None, hold.expires_ms) if live else (amounts, self._kept_until)
        row = [name, hold.path, amounts, ids, hold.state, hold.expires_ms, actual]
        taken = (rows.crc(row), *row, due, self._time)
        number = self._db.execute(rows.INSERT_HOLD, taken).lastrowid or 0
        hold.buckets = None
        if number % SWEEP_EVERY == 0:
            self._sweep(SWEPT)

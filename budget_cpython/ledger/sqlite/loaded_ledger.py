"""Let the core's ledger decide about accounts and holds that are kept in a file."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import filterfalse
from threading import Lock
from typing import Any

from budget_core.ledger import memory
from budget_core.ledger.bucket import FAR, HELD, Bucket
from budget_core.ledger.checks import MOST, chain, check_key, check_path
from budget_core.ledger.errors import LedgerError, UnknownHoldError
from budget_core.ledger.hold import Hold, check_hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.operations import TOGETHER
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
_TOGETHER = frozenset((*TOGETHER, "hold", "add_usage", "tell_usage"))  # load and save once
_KEY_AT = {"reserve": 2, "charge": 2, "renew": 3, "hold": 1}  # the place of their key
_ON_ACCOUNTS = ("reserve", "charge", "renew", "balance", "limits", "history", "set_limits")
_ON_PAST = ("history", "set_limits")  # windows
_PATHS = 1024  # whose accounts are remembered
_MOST = 20_000  # buckets, accounts and holds that stay loaded

Operation = tuple[str, tuple[Any, ...]]  # its name, and its arguments


@lru_cache(_PATHS)
def _chain(path: Any) -> list[str]:
    return chain(check_path(path))


def _name_of(path: str, id: str) -> str:
    return id if id[:1] == "#" else _chain(path)[0] + "/" + id


class LoadedLedger(memory.Ledger):
    """The core's ledger, with no accounts and holds but those that operations have looked for.

    They are loaded from a file together, and saved where they have changed. The clock stands still
    meanwhile. One thread at a time uses it.

    What was loaded stays loaded while it is as in the file: until another connection writes, what
    was done is undone, or a window ends.
    """

    _paths = staticmethod(_chain)

    def __init__(
        self, clock: Callable[[], float], windows: Callable[[Any], Window], **options: Any
    ) -> None:
        super().__init__(clock, Lock(), windows=lru_cache(64)(windows), **options)
        self._db: sqlite3.Connection
        self._forget()

    def perform(
        self, db: sqlite3.Connection, operations: Sequence[Operation], keeps: bool
    ) -> list[Any]:
        """Do operations on a file, in their order; return their results.

        What is loaded is kept if it `keeps` being so in the file.

        A `LedgerError` in the place of one is an answer too, and so is the `ValueError` of a
        malformed argument. `None` is the result of one of `READS` that is to be done again, after a
        commit. Raises whatever else goes wrong: then the file's transaction is to be undone.
        """
        self._db = db
        if not keeps:
            self._forget()
        results: list[Any] = []
        for at, (operation, arguments) in enumerate(operations):
            goes_on = at > 0 and operation in _TOGETHER and operations[at - 1][0] in _TOGETHER
            if not goes_on:
                if at:
                    self._save()
                self._begin()
                if at or operation not in _TOGETHER:  # others load other windows, and remove some
                    self._forget()
                if operation in READS and self._expire_some(STEP) == STEP:
                    results.append(None)
                    continue
                self._load(operations[at:] if operation in _TOGETHER else [operations[at]])
            try:
                found: Any = getattr(self, operation)(*arguments)
            except LedgerError as error:
                found = error
            except ValueError as error:
                if operation not in _TOGETHER:
                    raise
                found = error
            if isinstance(found, Hold):
                if found not in self._holds:
                    name = _name_of(found.path, found.id)
                    self._named[name] = self._touched[name] = found
                now = (found.state, found.expires_ms, found.actual)  # it may change later
                found = Hold(found.path, found.id, dict(found.amounts), *now)
            results.append(found)
        self._save()
        if operations[-1][0] not in _TOGETHER:
            self._forget()
        return results

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others."""
        before = self._accounts.get(check_path(path), [])
        super().set_limits(path, limits)
        after = self._accounts.get(path, [])
        for limit in before:
            if limit not in after:
                self._db.execute(rows.DELETE_LIMIT, limit.place)
                del self._windows[limit]
        for limit in after:
            self._windows.setdefault(limit, None)
        if bool(before) != bool(after):
            count = self._count_accounts() + (1 if after else -1)
            self._db.execute(rows.UPDATE_TOTALS, (rows.crc([count]), count))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return [account for (account,) in self._db.execute(rows.ACCOUNTS)]

    def expire(self) -> int:
        """Settle holds that are over, and forget old ones; return how many were over."""
        return self._sweep(STEP)

    def _begin(self) -> None:
        """Read the clock; forget what is loaded if a window has ended, or if it is much."""
        self._time = now = int(self._clock() * 1000)
        self._kept_until = now and now + self._keep_ms  # of what is settled now; 0 without a date
        if now >= self._until or len(self._by_id) + len(self._accounts) + len(self._named) > _MOST:
            self._forget()

    def _forget(self) -> None:
        """Drop the accounts, buckets and holds that are loaded."""
        self._accounts.clear()
        self._live.clear()
        self._by_id: dict[int, Bucket] = {}
        self._loaded: dict[Bucket, tuple[int, list[Any]]] = {}  # id, and the columns as loaded
        self._named: dict[str, Hold] = {}
        self._holds: dict[Hold, tuple[int, list[Any]]] = {}  # number, and the columns as loaded
        self._until = FAR  # the end of the first window to end
        self._finish()

    def _finish(self) -> None:
        """Drop the changes that are to be saved."""
        self._settled.clear()
        self._windows: dict[memory.CountedLimit, Any] = {}  # the current bucket as loaded
        self._touched: dict[str, Hold] = {}  # which may have changed, or are new
        self._used: dict[Any, dict[str, int]] = {}  # usage that is to be added

    def _now(self) -> int:
        return self._time

    def _new_id(self) -> str:
        return f"#{self._time:x}-{os.urandom(6).hex()}"  # in order, which keeps an index small

    def _count_accounts(self) -> int:
        for _, (count,) in rows.read(self._db, rows.TOTALS):
            return int(count)
        raise sqlite3.DatabaseError("the ledger has no count of its accounts")

    def _find(self, hold: Hold) -> Hold:
        found = self._named.get(_name_of(check_hold(hold).path, hold.id))
        if found is None or found.path != hold.path:
            if hold.id[:1] != "#":
                check_key(hold.id)
            raise UnknownHoldError(hold.path, hold.id)
        return found

    def _look_up(self, name: str) -> Hold | None:
        return self._named.get(name)

    def _expire(self, now: int) -> int:
        return 0  # those that are over are looked for in the file

    def _sweep(self, most: int) -> int:
        """Remove settled holds that are no longer kept, and settle live ones that are over."""
        if self._time:
            self._db.execute(rows.FORGET, (self._time, most))
            self._db.execute(rows.DATE, (self._kept_until, most))
        return self._expire_some(most)

    def _expire_some(self, most: int) -> int:
        """Settle live holds that are over, up to so many, and save that; return their number."""
        self._load_holds(rows.read(self._db, rows.OVER, self._time, most))
        over = list(self._touched.values())
        for hold in over:
            self._expire_one(hold, self._time)
        self._save()
        return len(over)

    def _load(self, operations: Sequence[Operation]) -> None:
        """Load the holds and the accounts that operations look for, each once.

        A malformed path or key is left to the operation, which refuses it.
        """
        names: list[str] = []
        accounts: dict[str, None] = {}
        for operation, arguments in operations:
            about: Any = arguments[0] if arguments else None
            keys = arguments[_KEY_AT.get(operation, len(arguments)) :][:1]
            if isinstance(about, Hold):
                about, keys = about.path, (about.id, *keys)
            try:
                paths = _chain(about)
            except (TypeError, ValueError):
                continue
            for key in keys:
                if isinstance(key, str) and key.isascii():
                    names.append(key if key[:1] == "#" else paths[0] + "/" + key)
            if operation in _ON_ACCOUNTS:
                accounts.update(dict.fromkeys(paths))
        missing = list(dict.fromkeys(filterfalse(self._named.__contains__, names)))
        if missing:
            self._load_holds(rows.read(self._db, rows.KNOWN, self._time, among=missing))
        for name in filter(self._named.__contains__, names):
            self._touched[name] = self._named[name]
        missing = list(filterfalse(self._accounts.__contains__, accounts))
        if missing:
            self._load_accounts(missing, operations[0][0] in _ON_PAST)

    def _load_accounts(self, accounts: list[str], past: bool) -> None:
        """Load the limits of accounts in their current windows; with `past`, in all."""
        for account in accounts:
            self._accounts[account] = []
        for bucket in self._read(rows.CURRENT, among=accounts):
            account, axis, name = bucket.place
            limit = memory.CountedLimit(account, axis, self._reader.window(name), bucket)
            if past or self._time >= bucket.end:
                limit.past = self._read(rows.PAST, *bucket.place)
            elif limit.window.reach:
                bucket.earlier = self._earlier(bucket, limit.window)
            self._until = min(self._until, 0 if limit.window.reach else bucket.end)
            self._windows[limit] = (bucket, bucket.start, bucket.end, bucket.cap)
            self._accounts[account].append(limit)

    def _earlier(self, bucket: Bucket, window: Window) -> list[Bucket]:
        """Return one bucket for all that still count, which may be many, beside those of holds."""
        first = window.bounds(bucket.start)[0]
        earlier = Bucket(bucket.place, first, bucket.start)
        found = [earlier]
        for number, columns in rows.read(
            self._db, rows.EARLIER, *bucket.place, first, bucket.start
        ):
            if number in self._by_id:  # a hold's, which may be settled before
                found.append(self._by_id[number])
                continue
            earlier.spent += int(columns[6])
            earlier.held += int(columns[7])
        return found

    def _read(self, statement: str, *given: Any, among: Sequence[Any] = ()) -> list[Bucket]:
        """Return the buckets of rows; each is loaded once."""
        found = []
        for number, columns in rows.read(self._db, statement, *given, among=among):
            bucket = self._by_id.get(number)
            if bucket is None:
                account, axis, name, _, start, end, spent, held, cap = columns
                counts = (int(spent), int(held), cap)
                bucket = self._by_id[number] = Bucket((account, axis, name), start, end, *counts)
                self._loaded[bucket] = (number, columns)
            found.append(bucket)
        return found

    def _load_holds(self, found: list[tuple[int, list[Any]]]) -> None:
        """Load the holds of rows, with their buckets."""
        ids: dict[Hold, list[int]] = {}
        missing: set[int] = set()
        for number, columns in found:
            name, path, amounts, numbers, state, expires, actual = columns
            if name in self._named:
                self._touched[name] = self._named[name]
                continue
            key = name if name[0] == "#" else name.partition("/")[2]
            amounts, actual = rows.decode(amounts)[0], actual and rows.decode(actual)[0]
            hold = Hold(path, key, amounts, state, expires, actual, {})
            self._named[name] = self._touched[name] = hold
            self._holds[hold] = (number, columns)
            if state == HELD:
                self._live[name] = hold
            ids[hold] = list(map(int, numbers.split()))
            missing.update(ids[hold])
        missing.difference_update(self._by_id)
        if missing:
            self._read(rows.OF_HOLDS, among=list(missing))
        for hold, its in ids.items():
            buckets: dict[str, tuple[Bucket, ...]] = {}
            for number in its:
                if number in self._by_id:  # else its limit was removed
                    bucket = self._by_id[number]
                    buckets[bucket.place[1]] = (*buckets.get(bucket.place[1], ()), bucket)
            hold.buckets = buckets

    def _save(self) -> None:
        """Write what has changed, and what is new."""
        db, sums, changed, sweeps = self._db, [], [], 0
        for limit, window in self._windows.items():
            bucket = limit.bucket
            if window != (bucket, bucket.start, bucket.end, bucket.cap):
                self._save_window(limit, window and window[0])
        buckets: dict[Bucket, None] = {}
        for hold in self._touched.values():
            for along in (hold.buckets or {}).values():
                buckets.update(dict.fromkeys(along))
        for bucket in buckets:
            number, row = self._loaded[bucket]
            spent, held = bucket.spent, bucket.held
            if spent != int(row[6]) or held != int(row[7]):
                row[6] = spent if spent <= MOST else str(spent)  # SQLite's integers end
                row[7] = held if held <= MOST else str(held)
                sums.append((rows.crc(row), *row[6:8], number))
        if sums:
            db.executemany(rows.UPDATE_BUCKET, sums)
        for name, hold in self._touched.items():
            number, row = self._holds.get(hold, (0, []))
            actual = None if hold.actual is None else rows.as_json(hold.actual)
            now = [hold.state, hold.expires_ms, actual]
            due = hold.expires_ms if hold.state == HELD else self._kept_until
            if not row:
                number = self._insert(name, hold, now, due)
                sweeps += number % SWEEP_EVERY == 0
            elif now[:2] != row[4:6]:
                row[4:] = now
                changed.append((rows.crc(row), *now, due, number))
            if hold.state != HELD:
                self._named.pop(name, None)
                self._holds.pop(hold, None)
        if changed:
            db.executemany(rows.UPDATE_HOLD, changed)
        if self._used:
            self._save_usage()
        self._finish()
        if sweeps:
            self._sweep(SWEPT * sweeps)

    def _save_usage(self) -> None:
        raise NotImplementedError

    def _save_window(self, limit: memory.CountedLimit, left: Bucket | None) -> None:
        """Write the window that a limit is in, and remove those that it does not keep."""
        db, bucket = self._db, limit.bucket
        for one in [one for one in self._loaded if one.place == limit.place]:
            number, row = self._loaded[one]
            if one is not bucket and one not in limit.past:
                db.execute("DELETE FROM buckets WHERE id = ?", (number,))
                del self._by_id[number]
            elif one is bucket or one is left:
                row[3:6], row[8] = [int(one is bucket), one.start, one.end], one.cap
                db.execute(rows.UPDATE_WINDOW, (rows.crc(row), *row[3:6], one.cap, number))
        if bucket not in self._loaded:
            row = [*bucket.place, 1, bucket.start, bucket.end, 0, 0, bucket.cap]
            number = db.execute(rows.INSERT_BUCKET, (rows.crc(row), *row)).lastrowid or 0
            self._by_id[number], self._loaded[bucket] = bucket, (number, row)

    def _insert(self, name: str, hold: Hold, now: list[Any], due: int | None) -> int:
        """Write a new hold with its state of now; return its number."""
        numbers = [str(self._loaded[one][0]) for one in sum((hold.buckets or {}).values(), ())]
        row = [name, hold.path, rows.as_json(hold.amounts), " ".join(numbers), *now]
        taken = (rows.crc(row), *row, due, self._time)
        number = self._db.execute(rows.INSERT_HOLD, taken).lastrowid or 0
        self._holds[hold] = (number, row)
        return number

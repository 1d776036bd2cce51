"""What a ledger in a file tells operators."""

import sqlite3
from collections.abc import Sequence
from json import dumps, loads
from typing import Any

from budget_core.ledger.bucket import Bucket
from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_core.ledger.window import NO_DATE
from budget_cpython.ledger.journal import (
    KEEP_EVENTS_S,
    KEEP_USAGE_S,
    MOST_EVENTS,
    HourOfUsage,
    LedgerEvent,
    OpenHold,
    checked_events,
    checked_usage,
)
from budget_cpython.ledger.limit_changes import change_of
from budget_cpython.ledger.selection import check_selected
from budget_cpython.ledger.sqlite import rows
from budget_cpython.ledger.sqlite.loaded_ledger import LoadedLedger

TRIMMED = 16  # old rows that go with each operation, beside as many as it adds

_KNOWN = "SELECT number FROM events WHERE name = ?"
_NOTE = "INSERT INTO events (at, kind, account, details, name) VALUES (?, ?, ?, ?, ?)"
_TRIM_EVENTS = (
    "DELETE FROM events WHERE (number <= ? OR at <= ?)"
    " AND number < (SELECT min(number) FROM events) + ?"
)
_EVENTS = "SELECT kind, account, details, coalesce(name, ''), at, number FROM events WHERE {}"
_USED = "SELECT amounts FROM usage WHERE hour = ? AND path = ? AND model = ? AND tool = ?"
_USE = "INSERT OR REPLACE INTO usage (hour, path, model, tool, amounts) VALUES (?, ?, ?, ?, ?)"
_TRIM_USAGE = (
    "DELETE FROM usage WHERE hour <= ? AND (hour, path, model, tool) IN"
    " (SELECT hour, path, model, tool FROM usage ORDER BY hour, path, model, tool LIMIT ?)"
)
_USAGE = (
    "SELECT hour, path, model, tool, amounts FROM usage WHERE hour >= ? AND {}"
    " ORDER BY hour, path, model, tool"
)


class LoadedJournal(LoadedLedger):
    """A `LoadedLedger` that also answers and notes what operators ask of a file."""

    def set_limits(self, path: str, limits: Sequence[Limit], by: str = "") -> None:
        """Give an account these limits and no others, and note what changed, `by` whom."""
        before = self.limits(path)
        super().set_limits(path, limits)
        self.note(change_of(path, before, self.limits(path), by))

    def balances(self, path: str = "") -> list[Balance]:
        """Return the balance of each account's own limits, by path, axis and window."""
        selected, given = _below("account", path)
        found = rows.read(self._db, rows.CURRENT_OF.format(selected), *given)
        buckets = [self._as_of_now(columns) for _, columns in found]
        return [Balance.of(bucket, bucket.spent, bucket.held) for bucket in buckets]

    def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        """Return holds that are not settled, the oldest first."""
        selected, given = _below("path", path)
        text = rows.OPEN.format(selected)
        return [_open_hold(*row) for row in rows.read(self._db, text, *given, max(0, most))]

    def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        """Append events; return their numbers, 0 for a `name` that is known already."""
        db, now, numbers = self._db, self._time // 1000, []
        for event in checked_events(events):
            if event.name and db.execute(_KNOWN, (event.name,)).fetchone():
                numbers.append(0)
                continue
            row = (now, event.kind, event.account, dumps(event.details), event.name or None)
            numbers.append(db.execute(_NOTE, row).lastrowid or 0)
        last = max(numbers, default=0)
        if last:
            most = TRIMMED + len(numbers)
            db.execute(_TRIM_EVENTS, (last - MOST_EVENTS, now - KEEP_EVENTS_S, most))
        return numbers

    def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        """Return the last events of these kinds, or the first ones after a number."""
        selected, given = _below("account", path)
        if kinds:
            selected += f" AND kind IN ({', '.join('?' * len(kinds))})"
        if after is not None:
            selected += f" AND number > {int(after)}"
        order = "DESC" if after is None else "ASC"
        text = _EVENTS.format(selected) + f" ORDER BY number {order} LIMIT ?"
        found = self._db.execute(text, (*given, *kinds, max(0, most))).fetchall()
        events = [
            LedgerEvent(kind, account, _from_json(details), *rest)
            for kind, account, details, *rest in found
        ]
        return events if after is not None else events[::-1]

    def add_usage(self, new: Sequence[HourOfUsage]) -> None:
        """Add usage of calls to the sums of its hour, path, model and tool."""
        for *place, amounts in checked_usage(new):
            self.tell_usage({tuple(place): amounts})

    def tell_usage(self, new: dict[Any, dict[str, int]]) -> None:
        """Add usage, by hour, path, model and tool, that is known to be well-formed."""
        for place, amounts in new.items():
            total = self._used.setdefault(place, {})
            for axis in amounts:
                total[axis] = total.get(axis, 0) + amounts[axis]

    def _save_usage(self) -> None:
        """Add to the rows of usage; where new ones begin, some old ones go."""
        new = newest = 0
        for place, amounts in self._used.items():
            known = self._db.execute(_USED, place).fetchone()
            total = _from_json(known[0]) if known else {}
            for axis in amounts:
                total[axis] = total.get(axis, 0) + amounts[axis]
            self._db.execute(_USE, (*place, dumps(total)))
            if not known:
                new, newest = new + 1, max(newest, place[0])
        if new:
            over = min(newest, self._time // 1000) - KEEP_USAGE_S
            self._db.execute(_TRIM_USAGE, (over, TRIMMED + new))

    def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later, in Unix seconds."""
        selected, given = _below("path", path)
        found = self._db.execute(_USAGE.format(selected), (since, *given)).fetchall()
        return [
            HourOfUsage(hour, place, model, tool, _from_json(amounts))
            for hour, place, model, tool, amounts in found
        ]

    def _as_of_now(self, columns: list[Any]) -> Bucket:
        """Return what counts of a row's limit now; nothing is moved on in the file.

        The other buckets of a window are added up without a look at their checksums.
        """
        account, axis, name, _, start, end, spent, held, cap = columns
        place, sums = (account, axis, name), (int(spent), int(held))
        window = self._reader.window(name)
        is_over = self._time >= end
        if is_over or window.reach:
            first, begins, ends = window.bounds(self._time if is_over else start)
            if end != NO_DATE and begins >= start:  # else it moves to another window as it is
                counted = self._db.execute(rows.SUMS, (*place, first, begins)).fetchall()
                sums = sum(int(one[0]) for one in counted), sum(int(one[1]) for one in counted)
            start, end = begins, ends
        return Bucket(place, start, end, *sums, cap)


def _below(column: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Return the condition that selects a path and all below it, and its arguments."""
    if not check_selected(path):
        return "1", ()
    between = f"({column} = ? OR ({column} > ? AND {column} < ?))"
    return between, (path, path + "/", path + "0")  # "0" comes after "/"


def _open_hold(taken: int, columns: list[Any]) -> OpenHold:
    name, path, amounts, _, _, expires, _ = columns
    key = name if name[0] == "#" else name.partition("/")[2]
    return OpenHold(path, key, _from_json(amounts), taken // 1000, -(-expires // 1000))


def _from_json(text: str) -> Any:
    try:
        return loads(text)
    except ValueError as error:
        raise sqlite3.DatabaseError(f"a row of the journal is damaged: {error}") from error

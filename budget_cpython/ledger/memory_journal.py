"""The events and the usage of a ledger in memory."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from budget_cpython.ledger.journal import (
    KEEP_EVENTS_S,
    KEEP_USAGE_S,
    MOST_EVENTS,
    HourOfUsage,
    LedgerEvent,
    checked_events,
    checked_usage,
    sum_of_usage,
)
from budget_cpython.ledger.selection import check_selected, is_below


class MemoryJournal:
    """The events and the usage of one ledger, for one thread at a time."""

    def __init__(self) -> None:
        self._events: deque[LedgerEvent] = deque()
        self._names: set[str] = set()
        self._last = 0  # number
        self._usage: dict[int, dict[tuple[str, str, str], dict[str, int]]] = {}  # by hour

    def note(self, events: Sequence[LedgerEvent], now: int) -> list[int]:
        """Append events at a Unix second; return their numbers, 0 for a name known already."""
        numbers = []
        for event in checked_events(events):
            if event.name in self._names:
                numbers.append(0)
                continue
            if event.name:
                self._names.add(event.name)
            self._last += 1
            self._events.append(event._replace(at=now, number=self._last))
            numbers.append(self._last)
        kept = self._events
        while kept and (len(kept) > MOST_EVENTS or kept[0].at <= now - KEEP_EVENTS_S):
            self._names.discard(kept.popleft().name)
        return numbers

    def events(
        self, path: str, kinds: Sequence[str], after: int | None, most: int
    ) -> list[LedgerEvent]:
        """Return the last events of these kinds, or the first ones after a number."""
        check_selected(path)
        kept = self._events if after is not None else reversed(self._events)
        wanted = (
            one
            for one in kept
            if is_below(one.account, path)
            and (not kinds or one.kind in kinds)
            and (after is None or one.number > after)
        )
        found = list(islice(wanted, max(0, most)))
        return found if after is not None else found[::-1]

    def add_usage(self, rows: Iterable[HourOfUsage], now: int) -> None:
        """Add to the usage of each row's hour, path, model and tool, at a Unix second."""
        for hour, path, model, tool, amounts in checked_usage(rows):
            if hour not in self._usage:
                newest = min(now, max(hour, *self._usage) if self._usage else hour)
                for old in [one for one in self._usage if one <= newest - KEEP_USAGE_S]:
                    del self._usage[old]
            total = self._usage.setdefault(hour, {}).setdefault((path, model, tool), {})
            for axis in amounts:
                total[axis] = total.get(axis, 0) + amounts[axis]

    def usage(self, path: str, since: int) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later."""
        check_selected(path)
        return sum_of_usage(
            HourOfUsage(hour, *place, amounts)
            for hour, places in self._usage.items()
            if hour >= since
            for place, amounts in places.items()
            if is_below(place[0], path)
        )

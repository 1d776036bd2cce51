"""The day: the hour at which it begins, when it is over, and what a store holds of it."""

from budget_core.checks import check_count
from budget_core.wall_clock import DAY, SLACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import BudgetStateStore

NAMES = ("tokens", "ahead", "warned", "announced")  # what a daily tracker stores of its day
HOUR = 3600
STAYS = 0  # what `follow` returns, beside _CHANGED
OVER = 2
_CHANGED = 1
_UNKNOWN = 0  # the day of a clock whose date cannot be believed
_FAR = 1 << 40  # seconds: no date, whatever a clock says


def check_hour(name: str, value: "Any") -> int:
    """Accept an hour, in UTC, at which days begin: 0 to 23."""
    hour = check_count(name, value)
    if hour >= DAY // HOUR:
        from budget_core.errors import refuse

        refuse(name, "an hour from 0 to 23", value)
    return hour


def day_at(now: int, reset_hour_utc: int) -> "tuple[int, int]":
    """Return `(day, start)` of a moment where days begin at an hour; days count from 1970."""
    day = (now - reset_hour_utc * HOUR) // DAY
    return day, day * DAY + reset_hour_utc * HOUR


class DayWindow:
    """The day, counted from 1970, that a clock is in; it never moves back and is never begun twice.

    A clock that is set back changes nothing. For a `WallClock` three more rules hold. What was used
    before it had a date counts for the first day it knows. If its date is before this day for a
    whole day long, this day was wrong: it becomes the day that the clock shows, and what it has
    used stays used; `behind` is since when, or 0. And two days do not end within a day of monotonic
    time, less ten minutes, whatever a sync says.
    """

    def __init__(self, clock: "Callable[[], float]", reset_hour_utc: int) -> None:
        self.clock = clock
        self.behind = 0
        self.reset_hour_utc = reset_hour_utc
        self._elapsed: Any = getattr(clock, "elapsed", None)
        self._began: int | None = None  # by the monotonic clock
        self._set_day(clock())

    def _set_day(self, now: float) -> None:
        first = self.reset_hour_utc * HOUR
        self.day, self.start = day_at(int(now) if first <= now < _FAR else first, first // HOUR)
        self.end = self.start + DAY
        self.behind = 0

    def follow(self, now: float) -> int:
        """Move on to the day of `now`; return `OVER` if one ended, and `STAYS` if nothing changed.

        Anything else means that the count continues, and there is something new to store.
        """
        if self.end <= now < _FAR:
            if self._elapsed is None:
                self._set_day(now)
                return OVER
            if self.day == _UNKNOWN:
                self._set_day(now)
                return _CHANGED
            return self._end(int(now))
        if self._elapsed is None or not _UNKNOWN < now < self.start:
            self.behind = 0
            return STAYS
        if not _UNKNOWN < self.behind <= now:
            self.behind = int(now)
            return _CHANGED
        if now - self.behind < DAY:
            return STAYS
        self._set_day(self.behind + DAY)
        return self.follow(now) or _CHANGED

    def _end(self, now: int) -> int:
        elapsed = self._elapsed()
        soonest = elapsed if self._began is None else self._began + DAY - SLACK
        if elapsed < soonest:
            return STAYS
        began = self._began
        self._set_day(now)
        self._began = elapsed - (now - self.start)
        if began is not None:
            self._began = max(self._began, soonest)
        return OVER

    def adopt(self, day: int, behind: int) -> bool:
        """Continue a stored day; return whether it is not over and its count still counts.

        Raises `ValueError` for a day that no clock is in.
        """
        if day >= _FAR // DAY:
            raise ValueError(f"no clock has the day {day}")
        counts = day >= self.day or (day == _UNKNOWN and self._elapsed is not None)
        if day > self.day:
            self._set_day(self.start + (day - self.day) * DAY)
            self.behind = behind
        return counts

    def load(
        self, store: "BudgetStateStore", names: "Sequence[str]", least: int
    ) -> "tuple[dict[str, int] | None, Exception | None, Exception | None]":
        """Return `(counts, doubt, failure)`: what a store holds of this day, by name.

        `counts` is `None` where the store holds no such day, `doubt` is why a state cannot be
        trusted: it is damaged, or has less than the `least` number of these names. `failure` is why
        it cannot be read. A stored day that is later is the one that is counted from now on.
        """
        state: Any
        doubt: Exception | None
        failure: Exception | None
        state = counts = doubt = failure = None
        try:
            state = store.load()
            if state is not None:
                behind, in_doubt = divmod(check_count("behind", state["behind"]), 2)
                used = {}
                for name in names:
                    if name in state:
                        used[name] = check_count(name, state[name])
                if self.adopt(check_count("day", state["day"]), behind * HOUR):
                    if len(used) < least:
                        raise KeyError(names)
                    counts = used
                    if in_doubt:
                        doubt = ValueError("an earlier state was damaged")
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the budget holds
            if state is not None:
                from budget_core.errors import StateCorruptError

                doubt = StateCorruptError(f"not this budget's state: {error!r}", error)
            elif getattr(error, "corrupt", False):
                doubt = error
            else:
                failure = error
        return counts, doubt, failure

    def save(
        self, store: "BudgetStateStore", used: "dict[str, int]", doubt: "Exception | None"
    ) -> None:
        """Store the counts of this day by name, and whether they are in `doubt`.

        Raises what the store raises.
        """
        behind = 2 * (self.behind // HOUR) + (doubt is not None)
        store.save(dict(used, day=self.day, behind=behind))


def spent_at_worst(store: "BudgetStateStore", cap: int | None) -> int:
    """Return the usage of a day in doubt: all but the store's `allowance`."""
    return max(0, (cap or 0) - getattr(store, "allowance", 0))

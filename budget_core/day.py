"""Say which day is counted, when it is over, and what a store holds of it."""

from budget_core.checks import check_count
from budget_core.wall_clock import DAY, SLACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import BudgetStateStore

NAMES = ("day", "tokens", "ahead", "warned", "announced", "behind")
DOUBT = 1 << 6  # above what may be announced
HOUR = 3600
STAYS = 0  # what `follow` returns, beside _RENAMED
OVER = 2
_RENAMED = 1
_UNKNOWN = 0  # the day of a clock whose date cannot be believed
_FAR = 1 << 40  # seconds: no date, whatever a clock says


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
        self._offset = reset_hour_utc * HOUR
        self._elapsed: Any = getattr(clock, "elapsed", None)
        self._began: int | None = None  # by the monotonic clock
        self._name(clock())

    def _name(self, now: float) -> None:
        self.day = max(0, (int(now) - self._offset) // DAY) if 0 <= now < _FAR else _UNKNOWN
        self.start = self.day * DAY + self._offset
        self.end = self.start + DAY
        self.behind = 0

    def follow(self, now: float) -> int:
        """Move on to the day of `now`; return `OVER` if one ended, and `STAYS` if nothing changed.

        Anything else means that the count continues, and there is something new to store.
        """
        if self.end <= now < _FAR:
            if self._elapsed is None:
                self._name(now)
                return OVER
            if self.day == _UNKNOWN:
                self._name(now)
                return _RENAMED
            return self._end(int(now))
        if self._elapsed is None or not _UNKNOWN < now < self.start:
            self.behind = 0
            return STAYS
        if not _UNKNOWN < self.behind <= now:
            self.behind = int(now)
            return _RENAMED
        if now - self.behind < DAY:
            return STAYS
        self._name(self.behind + DAY)
        return self.follow(now) or _RENAMED

    def _end(self, now: int) -> int:
        elapsed = self._elapsed()
        soonest = elapsed if self._began is None else self._began + DAY - SLACK
        if elapsed < soonest:
            return STAYS
        began = self._began
        self._name(now)
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
            self._name(day * DAY + self._offset)
            self.behind = behind
        return counts


def load_day(
    store: "BudgetStateStore", window: DayWindow
) -> "tuple[dict[str, int] | None, Exception | None]":
    """Return what a store holds of the day that a window is in, and why that is in doubt.

    The state is `None` where the store holds no such day, or cannot be read or trusted. The error's
    `corrupt` is true where it cannot be trusted. Loading moves the window on to the stored day.
    """
    state: Any = None
    try:
        state = store.load()
        if state is None:
            return None, None
        values: dict[str, int] = dict(state)
        for name in NAMES:
            check_count(name, values[name])
        counts = window.adopt(values["day"], values["behind"] * HOUR)
    except Exception as error:  # noqa: BLE001 - whatever a store raises, the budget holds
        if state is None:
            return None, error
        from budget_core.errors import StateCorruptError

        text = f"the stored state is not a daily tracker's: {error!r}"
        return None, StateCorruptError(text, error)
    if not counts:
        return None, None
    doubt, values["announced"] = divmod(values["announced"], DOUBT)
    return values, ValueError("an earlier state of this day was damaged") if doubt else None


def spent_at_worst(store: "BudgetStateStore", cap: int | None) -> int:
    """Return what counts as used of a day in doubt: all but the store's `allowance`."""
    return max(0, (cap or 0) - getattr(store, "allowance", 0))

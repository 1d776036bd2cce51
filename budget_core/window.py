"""Say which day is counted, and when it is over."""

from budget_core.clock import DAY, day_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

UNKNOWN = 0  # the day of a clock whose date cannot be believed
STAYS = 0
RENAMED = 1
OVER = 2


class DayWindow:
    """The day, counted from 1970, that a clock is in; it never moves back and is never begun twice.

    A clock that is set back changes nothing. What was used while a `WallClock` had no date counts
    for the first day it knows. Where its date is before this day for a whole day long, this one was
    wrong: it becomes the day that the clock shows, and what it has used stays used.
    """

    def __init__(self, clock: "Callable[[], float]", reset_hour_utc: int) -> None:
        self.clock = clock
        self._reset_hour = reset_hour_utc
        self._is_carried = hasattr(clock, "mark_synced")
        self._behind: float | None = None
        self._name(day_key(clock(), reset_hour_utc))

    def _name(self, day: int) -> None:
        self.day = day
        self.start = day * DAY + self._reset_hour * 3600
        self.end = self.start + DAY
        self._behind = None

    def follow(self, now: float) -> int:
        """Move on to the day of `now`; return `OVER` if one ended, `RENAMED`, or `STAYS`."""
        if now >= self.end:
            known = self.day != UNKNOWN or not self._is_carried
            self._name(day_key(now, self._reset_hour))
            return OVER if known else RENAMED
        if not (self._is_carried and UNKNOWN < now < self.start):
            self._behind = None
        elif self._behind is None:
            self._behind = now
        elif now - self._behind >= DAY:
            self._name(day_key(self._behind + DAY, self._reset_hour))
            return self.follow(now) or RENAMED
        return STAYS

    def adopt(self, day: int) -> bool:
        """Go on with a stored day; return whether it is not over and its count still counts."""
        counts = day >= self.day or (day == UNKNOWN and self._is_carried)
        if day > self.day:
            self._name(day)
        return counts

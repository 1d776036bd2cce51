"""The windows of limits: from when until when one counts."""

from budget_core.day import HOUR, day_at
from budget_core.errors import refuse
from budget_core.ledger.bucket import FAR
from budget_core.ledger.checks import MOST_BUCKETS
from budget_core.wall_clock import DAY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NO_DATE = 1  # the end of the window of a clock that has no date, and says 0
_MONDAY = 4  # 1970-01-05
MOST_SECONDS = 366 * DAY  # of a rolling window


class Window:
    """A span of time that a limit is for; `bounds` returns the one that a moment is in.

    `name` is as `parse_window` takes it. All times are Unix milliseconds, UTC.
    """

    def __init__(
        self, name: str, bounds: "Callable[[int], tuple[int, int]]", reach: int = 0
    ) -> None:
        self.name = name
        self.reach = reach
        self._bounds = bounds

    def bounds(self, now: int) -> "tuple[int, int, int]":
        """Return `(first, start, end)`: the window of `now` is from `start` to before `end`.

        What was counted since `first` counts too; that is earlier than `start` for a rolling window
        only, whose `start` and `end` are those of its newest bucket.
        """
        if not now and self.name != "run":
            return 0, 0, NO_DATE
        start, end = self._bounds(now // 1000)
        start, end = max(0, start) * 1000, end * 1000
        return max(0, start - self.reach * 1000), start, end


def parse_window(name: "Any") -> Window:
    """Return the window of that name.

    - `run`: one that never ends.
    - `hour`, `day`, `week` (from Monday), `month`: the calendar's, in UTC. `day@5`, `week@5` and
      `month@5` begin five hours later; from 0 to 23.
    - `rolling 86400/24`: the last 86,400 seconds, counted in 24 buckets of an hour each; 60 buckets
      at most, each a whole number of seconds. It reaches back by up to a bucket more, so that no
      86,400 seconds ever hold more than the limit.

    Raises `ValueError` for any other.
    """
    unit, mark, hour = name.partition("@") if isinstance(name, str) else ("", "", "")
    if name == "run":
        return Window("run", lambda now: (0, FAR // 1000))
    if name == "hour":
        return Window("hour", _every(HOUR))
    if unit in ("day", "week", "month") and (not mark or _is_number(hour, DAY // HOUR - 1)):
        at = int(hour or "0")
        return Window(f"{unit}@{at}" if at else unit, _of_days(unit, at))
    if unit.startswith("rolling ") and not mark:
        return _rolling(name)
    return refuse_window(name)


def refuse_window(name: "Any") -> "NoReturn":
    """Raise the `ValueError` that says what a window's name may be."""
    refuse(
        "window",
        "'run', 'hour', 'day', 'week', 'month', one of the last three with the hour it begins at "
        "(UTC), as in 'day@5', or 'rolling SECONDS/BUCKETS'",
        name,
    )


def _is_number(text: str, most: int) -> bool:
    """Accept digits without a leading zero: each window has one name."""
    return text.isdigit() and len(text) < 10 and str(int(text)) == text and int(text) <= most


def _rolling(name: str) -> Window:
    seconds, _, buckets = name[8:].partition("/")
    if _is_number(seconds, MOST_SECONDS) and _is_number(buckets, MOST_BUCKETS):
        span, count = int(seconds), int(buckets)
        if span and count and not span % count:
            return Window(name, _every(span // count), span)
    return refuse_window(name)


def _every(size: int) -> "Callable[[int], tuple[int, int]]":
    """Return the bounds of windows of so many seconds."""

    def bounds(now: int) -> "tuple[int, int]":
        start = now - now % size
        return start, start + size

    return bounds


def _of_days(unit: str, hour: int) -> "Callable[[int], tuple[int, int]]":
    """Return the bounds of calendar days, weeks or months, whose days begin at an hour."""

    def bounds(now: int) -> "tuple[int, int]":
        day, start = day_at(now, hour)
        past, days = 0, 1
        if unit == "week":
            past, days = (day - _MONDAY) % 7, 7
        elif unit == "month":
            past = _day_of_month(day) - 1
            days = 32 - _day_of_month(day - past + 31)
        start -= past * DAY
        return start, start + days * DAY

    return bounds


def _day_of_month(day: int) -> int:
    """Return 1 to 31 for a day counted from 1970; years begin in March here."""
    cycle = (day + 719_468) % 146_097
    year = (cycle - cycle // 1460 + cycle // 36_524 - cycle // 146_096) // 365
    of_year = cycle - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    return of_year - (153 * month + 2) // 5 + 1

"""Elapsed time in whole milliseconds, read the same way on every port."""

import time

from budget_core.limits import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

INFINITY = float("inf")


class MonotonicClock:
    """A clock that only ever goes forward; deadlines read it, whatever the date is.

    `read` returns a whole number that grows by `per_ms` each millisecond. `reach_ms` is how far
    ahead it can tell one instant from another.
    """

    def __init__(self, read: "Callable[[], int]", per_ms: int = 1, reach_ms: int = 1 << 61) -> None:
        self.read = read
        self.per_ms = per_ms
        self.reach_ms = reach_ms

    def now_ms(self) -> int:
        """Return the milliseconds since an instant that stays the same."""
        return self.read() // self.per_ms


class TickCounter:
    """Counts on where a port's `ticks_ms` starts again at 0.

    Right as long as it is read once a `period` (12.4 days where ticks have 30 bits); a deadline
    within half of that is therefore seen to pass by whoever looks within as much again.
    """

    def __init__(self, ticks_ms: "Callable[[], int]", period: int) -> None:
        self._ticks = ticks_ms
        self._period = period
        self._ms = ticks_ms()

    def read(self) -> int:
        """Return the milliseconds counted; one assignment, so that threads cannot tear it."""
        seen = self._ms
        self._ms = seen = seen + (self._ticks() - seen) % self._period
        return seen


def clock_of(port: "Any") -> MonotonicClock:
    """Return the clock that a port's `time` module makes possible."""
    if hasattr(port, "monotonic_ns"):
        return MonotonicClock(port.monotonic_ns, 1_000_000, (1 << 63) // 1_000_000)
    period = port.ticks_add(0, -1) + 1
    return MonotonicClock(TickCounter(port.ticks_ms, period).read, 1, period // 2)


MONOTONIC = clock_of(time)
"""The clock of this machine, taken where none is given."""


def in_ms(name: str, seconds: "Any", least: float = 0) -> int | None:
    """Return a number of seconds to the nearest millisecond; `None` for infinity.

    Below zero is zero. Raises `ValueError` naming what is NaN, less than `least`, or no number.
    """
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not seconds >= least  # NaN is not
    ):
        rule = "a number of seconds" if least < 0 else "a number of seconds >= 0"
        raise ValueError(f"{name} must be {rule}, not {shown(seconds)}")
    if seconds == INFINITY:
        return None
    return round(max(0, min(seconds, 10**16)) * 1000)  # a float times 1000 may be infinite

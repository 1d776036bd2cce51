"""Elapsed time in whole numbers, read the same way on every port."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

inf = float("inf")


class MonotonicClock:
    """A clock that only ever goes forward; deadlines read it, whatever the date is.

    `read` returns a whole number that grows by `per_ms` each millisecond. `reach_ms` is how far
    ahead it can tell one instant from another.
    """

    def __init__(self, read: "Callable[[], int]", per_ms: int = 1, reach_ms: int = 1 << 49) -> None:
        self.read = read
        self.per_ms = per_ms
        self.reach_ms = reach_ms


def clock_of(port: "Any") -> MonotonicClock:
    """Return the clock that a port's `time` module makes possible.

    Ticks are counted on where they start again at 0. That is right as long as the clock is read
    once a period (12.4 days where ticks have 30 bits). A deadline within half of that is seen to
    pass if it is looked at within as much again.
    """
    if hasattr(port, "monotonic_ns"):
        return MonotonicClock(port.monotonic_ns, 1_000_000, (1 << 63) // 1_000_000)
    period = port.ticks_add(0, -1) + 1
    ticks_ms = port.ticks_ms
    last = ticks_ms()

    def read() -> int:
        nonlocal last
        seen: int = last
        last = seen = seen + (ticks_ms() - seen) % period  # one assignment: threads cannot tear it
        return seen

    return MonotonicClock(read, 1, min(period // 2, 1 << 49))


MONOTONIC = clock_of(time)
"""The clock of this machine, taken where none is given."""


def in_ms(name: str, seconds: "Any", lower: float = 0) -> int | None:
    """Return a number of seconds to the nearest millisecond; `None` for infinity.

    Below zero is zero. Raises `ValueError` naming what is NaN, less than `lower`, or no number.
    """
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not seconds >= lower  # NaN is not
    ):
        from budget_core.errors import refuse

        rule = "a number of seconds" if lower < 0 else "a number of seconds >= 0"
        refuse(name, rule, seconds)
    if seconds == inf:
        return None
    return round(max(0, min(seconds, 10**12)) * 1000)  # a float times 1000 may be infinite

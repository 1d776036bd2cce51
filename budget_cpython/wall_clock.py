"""The core's wall clock, on a monotonic clock that also runs while the machine sleeps."""

import time
from functools import partial

from budget_core.monotonic import MONOTONIC, MonotonicClock
from budget_core.wall_clock import WallClock

_ID = getattr(time, "CLOCK_BOOTTIME", None)  # on Linux; elsewhere the plain monotonic clock


def _boot_time() -> MonotonicClock:
    if _ID is None:
        return MONOTONIC
    return MonotonicClock(partial(time.clock_gettime_ns, _ID), 1_000_000)


WALL = WallClock(monotonic=_boot_time())
"""The clock of this machine: the default."""

"""Read the wall clock the same way on every port."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

DAY = 86_400


def epoch_offset(gmtime: "Callable[[int], Sequence[int]]") -> int:
    """Return the Unix time of a port's second 0.

    `time.time()` starts in 1970 on unix, rp2 and mimxrt, in 2000 on esp32, stm32 and samd.
    """
    return 946_684_800 if gmtime(0)[0] == 2000 else 0


_OFFSET = epoch_offset(time.gmtime)


def _shifted_time() -> float:
    return time.time() + _OFFSET


unix_time = _shifted_time if _OFFSET else time.time
"""Return seconds since 1970-01-01 UTC, whatever the port's epoch."""


def day_key(unix_seconds: float, reset_hour_utc: int) -> int:
    """Return the number of the budget day, counted from 1970, that begins at `reset_hour_utc`."""
    return max(0, (int(unix_seconds) - reset_hour_utc * 3600) // DAY)

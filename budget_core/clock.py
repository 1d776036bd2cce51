"""Read the wall clock the same way on every port, and believe it only as far as it deserves."""

import time

from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.monotonic import MonotonicClock
    from budget_core.shapes import *

DAY = 86_400
SLACK = 600  # seconds: how far a sync may set a clock forward as often as it likes
BUILT = 1_795_219_200  # 2026-11-21: a clock that is behind this release has not been set


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


class WallClock:
    """The date as far as it can be believed; call it for Unix seconds, 0 while it cannot.

    A date is believed if it is not before `built` and, where `needs_sync`, once `mark_synced` was
    called. From then on the monotonic clock carries it: whoever sets the wall clock changes nothing
    until the next sync. A sync may set the date forward by more than ten minutes once in a day of
    monotonic time, so that no two windows end by it in one day.

    `read` returns Unix seconds. Source: the clock rules in docs/chips.md.
    """

    def __init__(
        self,
        read: "Callable[[], float]" = unix_time,
        monotonic: "MonotonicClock" = MONOTONIC,
        needs_sync: bool = False,
        built: int = BUILT,
    ) -> None:
        self.needs_sync = needs_sync
        self.built = built
        self._read = read
        self._elapsed = monotonic.read
        self.second = monotonic.per_ms * 1000
        self._jumped = 0  # when, by the monotonic clock
        self._offset: int | None = None  # from the monotonic clock to Unix time, in its units

    def __call__(self) -> int:
        """Return the believed Unix time in whole seconds, or 0."""
        return self.ticks() // self.second

    def ticks(self) -> int:
        """Return the believed Unix time in parts of a `second`, the monotonic clock's, or 0."""
        if self._offset is None and (self.needs_sync or not self.mark_synced()):
            return 0
        return self._elapsed() + self._offset  # type: ignore[operator]

    @property
    def trusted(self) -> bool:
        """Whether the date is believed."""
        return self() > 0

    def mark_synced(self) -> bool:
        """Take the wall clock's date for the true one: a server of time has just set it.

        Return whether it is believed. It is not if it is before `built`, or a second great jump
        forward within a day.
        """
        date, now = int(self._read()) * self.second, self._elapsed()
        if date < self.built * self.second:
            return False
        if self._offset is None:
            self._jumped = now
        elif date > now + self._offset + SLACK * self.second:
            if now - self._jumped < DAY * self.second:
                return False
            self._jumped = now
        self._offset = date - now
        return True


WALL = WallClock()
"""The clock of this machine, taken where none is given."""

"""Read the wall clock the same way on every port, and believe it only as far as it deserves."""

import time

from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budget_core.monotonic import MonotonicClock

DAY = 86_400
SLACK = 600  # seconds by which clocks are wrong, and are set right
BUILT = 1_795_305_600  # 2026-11-22: a clock that is behind this release has not been set


def epoch_offset(gmtime: "Callable[[int], Sequence[int]]") -> int:
    """Return the Unix time of a port's second 0.

    `time.time()` starts in 1970 on unix, rp2 and mimxrt, in 2000 on esp32, stm32 and samd.
    """
    return 946_684_800 if gmtime(0)[0] == 2000 else 0


def unix_time() -> float:
    """Return seconds since 1970-01-01 UTC, whatever the port's epoch."""
    return time.time() + epoch_offset(time.gmtime)


class WallClock:
    """The date as far as it can be believed; call it for Unix seconds, 0 while it cannot.

    A date is believed if it is not before `built` and, where `needs_sync`, once `mark_synced` was
    called. From then on the monotonic clock carries it: setting the wall clock changes nothing
    until the next sync. A sync may set the date anywhere once in a day of monotonic time, and else
    back, or no more than ten minutes ahead of where that one would have it. Where ticks start again
    at 0 and nothing read them meanwhile, once in a day it may also be so many whole turns of them
    ahead, to ten minutes.

    `read` returns Unix seconds. docs/board_facts.md states the rules.
    """

    def __init__(
        self,
        read: "Callable[[], float]" = unix_time,
        monotonic: "MonotonicClock" = MONOTONIC,
        needs_sync: bool = False,
        built: int = BUILT,
    ) -> None:
        self.built = built
        self.read = read
        self.monotonic = monotonic.read
        self._second = monotonic.per_ms * 1000
        self.needs_sync = needs_sync  # a belief without a sync ends by setting it
        self._offset: int | None = None  # from the monotonic clock to Unix time, in its units
        self._most = 0  # what a sync may set that to
        self._synced: int | None = None  # when a sync set that, by the monotonic clock
        self._turn = monotonic.reach_ms * monotonic.per_ms * 2
        self._missed = 0  # of the monotonic clock: turns that nothing read
        self._missed_at = 0

    def __call__(self) -> int:
        """Return the believed Unix time in whole seconds, or 0."""
        if self.needs_sync and self._synced is None:
            return 0
        if self._offset is None:
            date = self._date()
            if not date:
                return 0
            self._offset = date - self._count()
        return (self.monotonic() + self._missed + self._offset) // self._second

    def elapsed(self) -> int:
        """Return the monotonic clock's seconds."""
        return self._count() // self._second

    def _count(self) -> int:
        return self.monotonic() + self._missed

    @property
    def stale(self) -> bool:
        """Whether the date is not believed, or the last sync a day of monotonic time ago."""
        return self._synced is None or self._count() - self._synced >= DAY * self._second

    def mark_synced(self) -> bool:
        """Take the wall clock's date for the true one: a server of time has just set it.

        Return whether it is believed. It is not if it is before `built`, or a second great jump
        forward within a day.
        """
        date, slack = self._date(), SLACK * self._second
        if not date:
            return False
        turns, off = divmod(date - self._count() - self._most + 2 * slack, self._turn)
        read = self.monotonic()
        again = self._missed and read - self._missed_at < DAY * self._second
        if not (self.stale or again) and turns > 0 and off <= 2 * slack:
            self._missed += turns * self._turn
            self._missed_at = read
        now = self._count()
        if self.stale:
            self._synced = now
            self._most = date - now + slack
        elif date - now > self._most:
            return False
        self._offset = date - now
        return True

    def _date(self) -> int:
        """Return the wall clock's date, or 0 for one that cannot be."""
        try:
            date = int(self.read())
        except Exception:  # noqa: BLE001 - a clock may be a chip on a bus, and may say NaN
            return 0
        return date * self._second if self.built <= date < 1 << 40 else 0


WALL = WallClock()
"""The clock of this machine, taken where none is given."""

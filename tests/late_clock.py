"""A clock that no stall of the machine uses up before what it is to bound has begun."""

from budget_core.monotonic import MONOTONIC, MonotonicClock


class LateClock:
    """Reads the monotonic clock's time, which stands still until it is told to go."""

    def __init__(self) -> None:
        self._start = MONOTONIC.read()
        self._begun: int | None = None
        self.clock = MonotonicClock(self, MONOTONIC.per_ms, MONOTONIC.reach_ms)

    def __call__(self) -> int:
        if self._begun is None:
            return self._start
        return self._start + MONOTONIC.read() - self._begun

    def go(self) -> None:
        """Let time pass from now on."""
        if self._begun is None:
            self._begun = MONOTONIC.read()

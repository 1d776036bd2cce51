"""Measure how long a run has taken, with what was declared a pause left out."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from budget_core.deadline import Deadline
    from budget_core.monotonic import MonotonicClock

    AnyDeadline = TypeVar("AnyDeadline", bound=Deadline)


class Stopwatch:
    """A run's time on a monotonic clock; it stands still between `pause` and the last `resume`."""

    def __init__(self, clock: "MonotonicClock") -> None:
        self.clock = clock
        self._since = clock.read()
        self._paused = self._began = self._depth = 0

    def elapsed_ms(self) -> int:
        """Return the whole milliseconds since the start."""
        now = self._began if self._depth else self.clock.read()
        return max(0, now - self._since - self._paused) // self.clock.per_ms

    def deadline(self, kind: "type[AnyDeadline]", ms: int | None) -> "AnyDeadline":
        """Return the deadline at which that many milliseconds will have elapsed.

        There is none while it stands still.
        """
        if ms is None or self._depth:
            return kind.never(self.clock)
        end = self._since + self._paused + ms * self.clock.per_ms
        return kind(end, self._since, self.clock)

    def pause(self) -> None:
        """Stand still; pauses may overlap."""
        if not self._depth:
            self._began = self.clock.read()
        self._depth += 1

    def resume(self) -> None:
        """Go on, when every pause has ended."""
        if self._depth == 1:  # in this order: nobody sees the pause over and not yet left out
            self._paused += max(0, self.clock.read() - self._began)
        self._depth -= 1

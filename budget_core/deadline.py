"""Instants by which work has to be over."""

from budget_core.checks import check_count
from budget_core.durations import in_ms, inf
from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from budget_core.monotonic import MonotonicClock


class Deadline:
    """An instant on the monotonic clock by which work has to be over.

    Made by `from_now`, `at`, `never` or `from_wire`, and never changed. Deadlines of one clock
    compare: the earlier is the smaller. In a `with` statement one that has passed raises
    `DeadlineExceeded`, and the body is not run.
    """

    __slots__ = ("_clock", "_due", "_read", "_since")

    def __init__(self, end: float, start: int, clock: "MonotonicClock") -> None:
        self._due = end
        self._since = start
        self._clock = clock
        self._read = clock.read

    @classmethod
    def from_now(cls, seconds: float, clock: "MonotonicClock" = MONOTONIC) -> "Self":
        """Return the deadline that many seconds ahead, to the nearest millisecond.

        Zero and less is a deadline that has passed, infinity one that never does. Raises
        `ValueError` for NaN, for other types, and for more than the clock can measure (6.2
        days where ticks have 30 bits).
        """
        return cls.from_wire(in_ms("seconds", seconds, -inf), clock)

    @classmethod
    def at(cls, instant: float, clock: "MonotonicClock" = MONOTONIC) -> "Self":
        """Return the deadline at an instant, in seconds of the monotonic clock.

        On CPython that is `time.monotonic()` and a loop's `time()`. An instant that has passed, one
        that never comes and errors are as in `from_now`.
        """
        ms = in_ms("instant", instant, -inf)
        if ms is None:
            return cls.never(clock)
        now = clock.read()
        cls.from_wire(max(0, ms - now // clock.per_ms), clock)  # refuses what it cannot measure
        return cls(max(now, ms * clock.per_ms), now, clock)

    @classmethod
    def never(cls, clock: "MonotonicClock" = MONOTONIC) -> "Self":
        """Return the deadline that never passes."""
        return cls.from_wire(None, clock)

    @classmethod
    def from_wire(cls, remaining_ms: int | None, clock: "MonotonicClock" = MONOTONIC) -> "Self":
        """Return the deadline that `to_wire` sent; raises `ValueError` for what it never sends."""
        now = clock.read()
        if remaining_ms is None:
            return cls(inf, now, clock)
        if check_count("remaining_ms", remaining_ms) > clock.reach_ms:
            raise ValueError(
                f"this clock can measure {clock.reach_ms // 1000} s ahead, "
                f"not {remaining_ms // 1000} s; Deadline.never() sets no limit"
            )
        return cls(now + remaining_ms * clock.per_ms, now, clock)

    @property
    def instant(self) -> float:
        """The instant in seconds of the monotonic clock, as `at` takes it; infinity for never."""
        return self._due / (1000 * self._clock.per_ms)

    def is_never(self) -> bool:
        """Tell whether this deadline never passes."""
        return self._due == inf

    def is_expired(self) -> bool:
        """Tell whether the deadline has passed; it has at the very instant."""
        return self._read() >= self._due

    def check_or_raise(self) -> None:
        """Raise `DeadlineExceeded` if the deadline has passed."""
        if self._read() >= self._due:
            from budget_core.errors import DeadlineExceeded

            raise DeadlineExceeded(self)

    def remaining_seconds(self) -> float:
        """Return the seconds left: 0 once it has passed, infinity for never."""
        return max(0.0, (self._due - self._read()) / (1000 * self._clock.per_ms))

    def elapsed_seconds(self) -> float:
        """Return the seconds since this deadline, or what `intersect` made it of, was set."""
        return max(0, self._read() - self._since) / (1000 * self._clock.per_ms)

    def allowed_seconds(self) -> float:
        """Return the seconds from when this deadline was set to its instant."""
        return (self._due - self._since) / (1000 * self._clock.per_ms)

    def timeout(self, at_most: float | None = None) -> float | None:
        """Return the seconds that a call may take, in the form that sockets and clients expect.

        That is what is left, and no more than `at_most`; `None` where neither sets a limit. Raises
        `DeadlineExceeded` where nothing is left: to many a client 0 means something else.
        """
        left = self.remaining_seconds()
        if at_most is not None:
            in_ms("at_most", at_most)
            left = min(left, at_most)
        if left <= 0:
            from budget_core.errors import DeadlineExceeded

            raise DeadlineExceeded(self)
        return None if left == inf else left

    def intersect(self, other: "Deadline | float") -> "Self":
        """Return the earlier of this deadline and another, or a number of seconds from now.

        `elapsed_seconds` counts from this one's start. Raises `ValueError` as `from_now` does, and
        for a deadline of another clock.
        """
        if not isinstance(other, Deadline):
            return self.within_ms(in_ms("seconds", other, -inf))
        if self <= other:
            return self
        since = self._since
        if other._clock is not self._clock:
            elapsed = (self._read() - self._since) * other._clock.per_ms // self._clock.per_ms
            since = other._read() - elapsed
        return type(self)(other._due, since, other._clock)

    def within_ms(self, ms: int | None) -> "Self":
        """Return this deadline, or the one that many milliseconds from now if that is earlier."""
        if ms is None:
            return self
        due = self._read() + ms * self._clock.per_ms
        if due >= self._due:
            return self
        if self._due == inf:
            self.from_wire(ms, self._clock)  # refuses what the clock cannot measure
        return type(self)(due, self._since, self._clock)

    def to_wire(self, transit_s: float = 0.05) -> int | None:
        """Return what remains, in whole milliseconds, for another machine; `None` for never.

        An instant means nothing on another clock (gRPC's rule). `transit_s` seconds are taken off
        for the way, so that the other side gives up first.
        """
        transit_ms = in_ms("transit_s", transit_s)
        if self.is_never():
            return None
        if transit_ms is None:
            return 0
        left = -int((self._read() - self._due) // self._clock.per_ms)  # rounded up
        return max(0, left - transit_ms)

    def __enter__(self) -> "Self":
        self.check_or_raise()
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __repr__(self) -> str:
        name = type(self).__name__
        if self.is_never():
            return f"<{name}: never>"
        past = (self._read() - self._due) / (1000 * self._clock.per_ms)
        if past < 0:
            return f"<{name}: {-past:.3f} s left>"
        return f"<{name}: passed {past:.3f} s ago>"

    def __hash__(self) -> int:
        return hash(self._due)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deadline)
            and self._due == other._due
            and (self._clock is other._clock or self.is_never())
        )

    def __lt__(self, other: "Deadline") -> bool:
        if not isinstance(other, Deadline):
            raise TypeError(f"a deadline compares with a deadline, not {other!r}")
        if self._clock is not other._clock and inf not in (self._due, other._due):
            raise ValueError("these deadlines are of different clocks")
        return self._due < other._due

    def __le__(self, other: "Deadline") -> bool:
        return self < other or self == other

    def __gt__(self, other: "Deadline") -> bool:
        return not self <= other

    def __ge__(self, other: "Deadline") -> bool:
        return not self < other

"""Instants by which work has to be over, and tokens that tell it to stop."""

from budget_core.errors import DeadlineExceeded
from budget_core.limits import check_count
from budget_core.lock import NoLock
from budget_core.monotonic import INFINITY, MONOTONIC, in_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


class Deadline:
    """An instant on the monotonic clock by which work has to be over.

    Made by `from_now`, `never` or `from_wire`, and never changed. Deadlines of one clock compare:
    the earlier is the smaller. In a `with` statement one that has passed raises
    `DeadlineExceeded`, and the body is not run. Source: seed 003.
    """

    __slots__ = ("_at_ms", "_clock", "_due", "_read", "_since_ms")

    def __init__(self, at_ms: int | None, since_ms: int, clock: "MonotonicClock") -> None:
        self._at_ms = at_ms
        self._since_ms = since_ms
        self._clock = clock
        self._read = clock.read
        self._due: float = INFINITY if at_ms is None else at_ms * clock.per_ms

    @classmethod
    def from_now(
        cls: "type[AnyDeadline]", seconds: float, clock: "MonotonicClock" = MONOTONIC
    ) -> "AnyDeadline":
        """Return the deadline that many seconds ahead, to the nearest millisecond.

        Zero and less is a deadline that has passed, infinity one that never does. Raises
        `ValueError` for NaN, for what is no number, and for more than the clock can measure (6.2
        days where ticks have 30 bits).
        """
        return cls._after(in_ms("seconds", seconds, -INFINITY), clock)

    @classmethod
    def never(cls: "type[AnyDeadline]", clock: "MonotonicClock" = MONOTONIC) -> "AnyDeadline":
        """Return the deadline that never passes."""
        return cls._after(None, clock)

    @classmethod
    def from_wire(
        cls: "type[AnyDeadline]", remaining_ms: int | None, clock: "MonotonicClock" = MONOTONIC
    ) -> "AnyDeadline":
        """Return the deadline that `to_wire` sent; raises `ValueError` for what it never sends."""
        if remaining_ms is not None:
            check_count("remaining_ms", remaining_ms)
        return cls._after(remaining_ms, clock)

    @classmethod
    def _after(cls: "type[AnyDeadline]", ms: int | None, clock: "MonotonicClock") -> "AnyDeadline":
        now = clock.now_ms()
        if ms is None:
            return cls(None, now, clock)
        if ms > clock.reach_ms:
            raise ValueError(
                f"this clock can measure {clock.reach_ms // 1000} s ahead, not {ms // 1000} s; "
                "Deadline.never() sets no limit"
            )
        return cls(now + ms, now, clock)

    @property
    def at(self) -> float:
        """The instant in seconds of the monotonic clock; infinity for never.

        On CPython that is the clock of `time.monotonic()` and of asyncio's loops.
        """
        return INFINITY if self._at_ms is None else self._at_ms / 1000

    def is_never(self) -> bool:
        """Tell whether this deadline never passes."""
        return self._at_ms is None

    def is_expired(self) -> bool:
        """Tell whether the deadline has passed; it has at the very instant."""
        return self._read() >= self._due

    def check_or_raise(self) -> None:
        """Raise `DeadlineExceeded` if the deadline has passed."""
        if self._read() >= self._due:
            raise DeadlineExceeded(self)

    def remaining_seconds(self) -> float:
        """Return the seconds left: 0 once it has passed, infinity for never."""
        return max(0.0, (self._due - self._read()) / (1000 * self._clock.per_ms))

    def elapsed_seconds(self) -> float:
        """Return the seconds since this deadline, or what `intersect` made it of, was set."""
        return max(0, self._clock.now_ms() - self._since_ms) / 1000

    def allowed_seconds(self) -> float:
        """Return the seconds from when this deadline was set to its instant."""
        return INFINITY if self._at_ms is None else (self._at_ms - self._since_ms) / 1000

    def timeout(self, at_most: float | None = None) -> float | None:
        """Return the seconds that a call may take, as sockets and clients want to be told.

        That is what is left, and no more than `at_most`; `None` where neither sets a limit. Raises
        `DeadlineExceeded` where nothing is left: to many a client 0 means something else.
        """
        left = self.remaining_seconds()
        if at_most is not None:
            in_ms("at_most", at_most)
            left = min(left, at_most)
        if left <= 0:
            raise DeadlineExceeded(self)
        return None if left == INFINITY else left

    def intersect(self: "AnyDeadline", other: "Deadline | float") -> "AnyDeadline":
        """Return the earlier of this deadline and another, or a number of seconds from now.

        `elapsed_seconds` goes on from this one's start. Raises `ValueError` as `from_now` does, and
        for a deadline of another clock.
        """
        if isinstance(other, Deadline):
            return self.intersect_deadline(other)
        return self.intersect_deadline(self.from_now(other, self._clock))

    def intersect_deadline(self: "AnyDeadline", other: "Deadline") -> "AnyDeadline":
        """Return the earlier of this deadline and another."""
        if self <= other:
            return self
        since = self._since_ms
        if other._clock is not self._clock:
            since += other._clock.now_ms() - self._clock.now_ms()
        return type(self)(other._at_ms, since, other._clock)

    def to_wire(self, transit_s: float = 0.05) -> int | None:
        """Return what remains, in whole milliseconds, for another machine; `None` for never.

        An instant means nothing on another clock (gRPC's rule). `transit_s` seconds are taken off
        for the way, so that the other side gives up first.
        """
        transit_ms = in_ms("transit_s", transit_s)
        if self._at_ms is None:
            return None
        if transit_ms is None:
            return 0
        return max(0, self._at_ms - self._clock.now_ms() - transit_ms)

    def __enter__(self: "AnyDeadline") -> "AnyDeadline":
        self.check_or_raise()
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __repr__(self) -> str:
        name = type(self).__name__
        if self._at_ms is None:
            return f"<{name}: never>"
        left = self._at_ms - self._clock.now_ms()
        if left > 0:
            return f"<{name}: {left / 1000:.3f} s left>"
        return f"<{name}: passed {-left / 1000:.3f} s ago>"

    def __hash__(self) -> int:
        return hash(self._at_ms)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Deadline):
            return False
        return self._at_ms == other._at_ms and (self._clock is other._clock or self._at_ms is None)

    def __lt__(self, other: "Deadline") -> bool:
        return self._due < self._due_of(other)

    def __le__(self, other: "Deadline") -> bool:
        return self._due <= self._due_of(other)

    def __gt__(self, other: "Deadline") -> bool:
        return self._due > self._due_of(other)

    def __ge__(self, other: "Deadline") -> bool:
        return self._due >= self._due_of(other)

    def _due_of(self, other: "Any") -> float:
        if not isinstance(other, Deadline):
            raise TypeError(f"a deadline compares with a deadline, not {other!r}")
        if self._clock is not other._clock and INFINITY not in (self._due, other._due):
            raise ValueError("these deadlines are of different clocks")
        return other._due


class DeadlineToken:
    """Tells one piece of work when to stop: at its deadline, or when it is cancelled.

    Work that asks `is_expired()` now and then can end early with what it has. Source: seed 000.
    """

    def __init__(self, deadline: Deadline, lock: "Lock | None" = None) -> None:
        self.deadline = deadline
        self._cancelled = False
        self._callbacks: list[Callable[[], object]] = []
        self._lock = lock or NoLock()

    @classmethod
    def from_budget(
        cls: "type[AnyToken]", budget: "TurnBudget", cap_s: float | None = None
    ) -> "AnyToken":
        """Return a token that expires with the turn, or in `cap_s` seconds if that is earlier."""
        return cls(budget.deadline_within(cap_s))

    def is_expired(self) -> bool:
        """Tell whether it is time to stop."""
        return self._cancelled or self.deadline.is_expired()

    def remaining_s(self) -> float:
        """Return the seconds left: 0 when it is time to stop, infinity where there is no limit."""
        return 0.0 if self._cancelled else self.deadline.remaining_seconds()

    def cancel(self) -> None:
        """Tell the work to stop now, for good; every callback is called, once.

        An error that a callback raises is raised when all have been called, the first one.
        """
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        errors = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the others are to be called as well
                errors.append(error)
        if errors:
            raise errors[0]

    def on_cancel(self, callback: "Callable[[], object]") -> None:
        """Have `callback()` called by whoever cancels the token, or now if somebody has.

        No lock is held meanwhile. A deadline that passes calls nobody.
        """
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()

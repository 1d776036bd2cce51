"""A budget in use: what a run and all that it spawns have used of it."""

from budget_core.budget import Budget
from budget_core.draw import Draw
from budget_core.limits import check_count
from budget_core.monotonic import MONOTONIC, in_ms
from budget_core.stop import (
    AtMost,
    MaxCost,
    MaxElapsed,
    MaxIterations,
    MaxTokens,
    MaxToolCalls,
    StopReason,
)
from budget_core.stopwatch import Stopwatch
from budget_core.turn_budget import TurnBudget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

_LIMITS = (
    ("turns", MaxIterations),
    ("tokens", MaxTokens),
    ("nano_usd", MaxCost),
    ("tool_calls", MaxToolCalls),
)


class Envelope(TurnBudget):
    """A `Budget` that a run has opened: its counts, its clock, and whom it draws on.

    A `child` draws on its parent: whatever it uses is used above as well, and the tightest of its
    own and all limits above holds at every claim, however many run at once; what it leaves was
    never taken. One run at a time uses an envelope.

    - `turns` (also `steps`), `tokens`, `nano_usd`, `tool_calls`, `reflections`: a `Draw` each.
    - `estimated`, `missing`, `unpriced`: calls whose usage was estimated or is not known, and
      those whose price is not.
    - `name`: how reasons speak of it.
    - `stopped`: the reason it was stopped for, or `None`.
    - `pauses`: the declared ones, each a dict of `reason` and `ms`.
    - `prints`: what `NoProgress` compares.

    Times are the monotonic clock's; `lock` is any context manager, a child has its parent's.
    Sources: seeds 000 and 004.
    """

    turns: Draw
    tokens: Draw
    nano_usd: Draw
    tool_calls: Draw
    reflections: Draw
    watch: Stopwatch

    # What TurnBudget's constructor makes is made otherwise here, all of it.
    def __init__(
        self,
        budget: Budget,
        clock: "MonotonicClock" = MONOTONIC,
        lock: "Lock | None" = None,
        parent: "Envelope | None" = None,
        name: str = "run",
    ) -> None:
        self.lock = lock = (lock or self.LOCK()) if parent is None else parent.lock
        self.watch = Stopwatch(clock if parent is None else parent.watch.clock)
        self.budget = budget
        self.parent = parent
        self.name = name
        self.max_context_tokens = budget.max_context_tokens
        above = None if parent is None else parent.max_context_tokens
        if above is not None and self.fits_context(above):
            self.max_context_tokens = above
        self.min_tool_s = 0
        self.stopped: StopReason | None = None
        self.closing = False
        self.pauses: list[dict[str, Any]] = []
        self.prints: list[int] = []
        self.estimated = self.missing = self.unpriced = 0
        self._watchers: list[Callable[[], object]] = [] if parent is None else parent._watchers
        self._timeout_ms = None if budget.timeout is None else in_ms("timeout", budget.timeout)
        self._kept_ms = budget.kept_of(self._timeout_ms)
        self.DEADLINE.from_wire(self._timeout_ms, self.watch.clock)  # refuses what is out of reach
        self.turns = self.steps = self._draw("turns", budget.kept_turns())
        self.tokens = self._draw("tokens", budget.kept_of(budget.max_tokens))
        self.nano_usd = self._draw("nano_usd", budget.kept_of(budget.max_nano_usd))
        self.tool_calls = self._draw("tool_calls")
        self.reflections = self._draw("reflections")
        self._calls: dict[str, Draw] = {}

    def _draw(self, axis: str, kept: int = 0) -> Draw:
        above = None if self.parent is None else getattr(self.parent, axis)
        return Draw(axis, getattr(self.budget, "max_" + axis), self.lock, above, kept)

    @classmethod
    def open(
        cls: "type[AnyEnvelope]",
        budget: Budget,
        clock: "MonotonicClock" = MONOTONIC,
        lock: "Lock | None" = None,
    ) -> "AnyEnvelope":
        """Return a new envelope, whose time runs from now.

        Raises `ValueError` for a timeout that the clock cannot measure, and for what is no budget.
        """
        if not isinstance(budget, Budget):
            raise ValueError(f"budget must be a Budget, not {budget!r}")
        return cls(budget, clock, lock)

    def child(
        self: "AnyEnvelope", budget: Budget | None = None, name: str = "", **limits: "Any"
    ) -> "AnyEnvelope":
        """Return an envelope that draws on this one, with a `Budget` or its fields as limits."""
        made = type(self.budget)(**limits) if budget is None else budget.replace(**limits)
        return type(self)(made, parent=self, name=name or self.name + "/child")

    def continuation(self: "AnyEnvelope", name: str = "") -> "AnyEnvelope":
        """Return an envelope for another run that goes on with all that is left of this one.

        It draws on this one, whose own run is over, and keeps a part back for a last call again.
        """
        with self.lock:
            self.stopped = None
            self.closing = False
            self._kept_ms = 0
            for _, draw in self._draws():
                draw.kept = draw.refused = 0
        rest: dict[str, Any] = {"max_" + axis: draw.room() for axis, draw in self._draws()}
        left = self._left_ms(True)
        rest["timeout"] = None if left is None else max(0, left) / 1000
        return self.child(self.budget, name or self.name, **rest)

    def chain(self) -> "list[Envelope]":
        """Return this envelope and all above it, the nearest first."""
        found: list[Envelope] = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found

    @property
    def deadline(self) -> "Deadline":  # type: ignore[override]
        """When work is to be over, here and above, without what is kept for the last call."""
        deadline = self._own_deadline(self.closing)
        for envelope in self.chain()[1:]:
            deadline = deadline.intersect(envelope._own_deadline(False))
        return deadline

    def _own_deadline(self, closing: bool) -> "Deadline":
        ms = self._timeout_ms
        if ms is not None and not closing:
            ms -= self._kept_ms
        return self.watch.deadline(self.DEADLINE, ms)

    def check(self) -> StopReason | None:
        """Return why no further LLM call is to be made, here or above, or `None`.

        Once the last call has begun, it does not matter that tool calls are lacking.
        """
        stopped = self.why_stopped()
        if stopped is not None:
            return stopped
        for envelope in self.chain():
            limits = envelope.limits(self.closing and envelope is self)
            for limit in limits:
                reason = limit.check(envelope)
                if reason is not None and not (self.closing and isinstance(limit, MaxToolCalls)):
                    return reason
        return None

    def why_stopped(self) -> StopReason | None:
        """Return the reason that was given to `stop`, here or above, or `None`."""
        for envelope in self.chain():
            if envelope.stopped is not None:
                return envelope.stopped
        return None

    def lacking(self, axis: str, text: str = "") -> StopReason:
        """Return the reason of a refusal: whose limit on `axis` it was, here or above."""
        own = getattr(self, axis)
        draw = own.tightest(False)
        name = self.name
        for envelope in self.chain():
            if getattr(envelope, axis) is draw:
                name = envelope.name
        condition = dict(_LIMITS)[axis]
        kept = 0 if draw.closing and draw is own else draw.kept
        cap = draw.cap
        return StopReason(condition.KIND, text, condition.AXIS, draw.used, cap, kept, name)

    def out_of_time(self) -> StopReason:
        """Return the reason of what was cut off by a deadline: whose it was, here or above."""
        owner, least = self, self._left_ms(self.closing)
        for envelope in self.chain()[1:]:
            left = envelope._left_ms(False)
            if left is not None and (least is None or left < least):
                owner, least = envelope, left
        kept = 0 if owner is self and self.closing else owner._kept_ms
        limit, used = owner._timeout_ms, owner.watch.elapsed_ms()
        return StopReason(StopReason.TIMEOUT, "", "ms", used, limit, kept, owner.name)

    def _left_ms(self, closing: bool) -> int | None:
        if self._timeout_ms is None:
            return None
        return self._timeout_ms - (0 if closing else self._kept_ms) - self.watch.elapsed_ms()

    def tightest_completion(self, wanted: int | None) -> int | None:
        """Return the most completion tokens of one call: what is wanted, and no more than here."""
        for envelope in self.chain():
            cap = envelope.budget.max_tokens_per_turn
            if cap is not None and (wanted is None or cap < wanted):
                wanted = cap
        return wanted

    def limits(self, closing: bool = False) -> "list[AtMost]":
        """Return this envelope's own limits as stop conditions; `closing` with all that is kept."""
        found: list[AtMost] = []
        for axis, condition in _LIMITS:
            draw = getattr(self, axis)
            if draw.cap is not None:
                found.append(condition(draw.cap, 0 if closing else draw.kept))
        if self._timeout_ms is not None:
            found.append(MaxElapsed(self._timeout_ms, 0 if closing else self._kept_ms))
        return found

    def begin_last_call(self) -> None:
        """Make what is kept back available, to this envelope and none below it."""
        with self.lock:
            self.closing = True
            for _, draw in self._draws():
                draw.closing = True

    def claim_tool_call(self, name: str = "") -> bool:
        """Use one tool call, also one of this tool's own, and return `True`, or `False`: none."""
        draws = [self.tool_calls]
        with self.lock:
            if any(name in envelope.budget.max_calls for envelope in self.chain()):
                draws.append(self.calls(name))
            for draw in draws:
                if not draw.has_one():
                    return False
            for draw in draws:
                draw.move(1, 0)
        return True

    def calls(self, name: str) -> Draw:
        """Return the calls of one tool."""
        if name not in self._calls:
            above = None if self.parent is None else self.parent.calls(name)
            draw = Draw(name, self.budget.max_calls.get(name), self.lock, above)
            self._calls.setdefault(name, draw)  # another thread may have been first
        return self._calls[name]

    def stop(self, reason: str = "", kind: str = StopReason.EXPLICIT_STOP) -> None:
        """End the run, and those below it, as soon as can be: calls in flight are cancelled.

        The first reason stays. May be called from another thread.
        """
        with self.lock:
            if self.stopped is None:
                self.stopped = StopReason(kind, reason, scope=self.name)
        self.changed()

    def extend(self, **more: "Any") -> None:
        """Raise limits while the run goes on, by so many each: `extend(max_tokens=1000)`.

        What is unlimited stays so; what is above holds as before, and no more is kept back. It
        undoes no stop. Raises `ValueError` for a name that is no limit of a run, and for what
        cannot be added; then nothing is changed.
        """
        known = {"max_" + axis: draw for axis, draw in self._draws()}
        with self.lock:
            ms = self._timeout_ms
            for name, amount in more.items():
                if name == "timeout":
                    added = in_ms(name, amount)
                    ms = None if ms is None or added is None else check_count(name, ms + added)
                elif name in known:
                    check_count(name, check_count(name, amount) + (known[name].cap or 0))
                else:
                    names = ", ".join(sorted(known))
                    raise ValueError(f"only {names} and timeout can be extended, not {name}")
            self._timeout_ms = ms
            for name, draw in known.items():
                if draw.cap is not None and more.get(name):
                    draw.cap += more[name]
                    draw.refused = 0
        self.changed()

    def paused(self, reason: str = "") -> "Pause":
        """Return a `with` whose time does not count against this envelope's timeout.

        It is for what waits before or between calls, such as an approval: what already runs keeps
        the time that it was given. Those above have their own time.
        """
        return Pause(self, reason)

    def usage(self) -> "dict[str, int]":
        """Return what is used, in whole numbers, children's use included."""
        with self.lock:
            seen = {axis: draw.used for axis, draw in self._draws()}
            seen["elapsed_ms"] = self.watch.elapsed_ms()
            for name in ("estimated", "missing", "unpriced"):
                seen[name] = getattr(self, name)
        return seen

    def remaining(self) -> "dict[str, int | None]":
        """Return what is left on each axis, here and above, less what is kept back.

        `time_ms` is the time's; `None` is unlimited.
        """
        with self.lock:
            left = {axis: draw.left() for axis, draw in self._draws()}
        left["time_ms"] = self.deadline.to_wire(0)
        return left

    def nearest(self) -> "tuple[int, int, int, str, str]":
        """Return `(share, used, cap, unit, name)` of the limit nearest to its end, here or above.

        `share` is in millionths of what may be used before the last call.
        """
        found = (0, 0, 0, "turns", self.name)
        for envelope in self.chain():
            for limit in envelope.limits():
                used, cap = limit.used(envelope), limit.limit
                share = used * 1_000_000 // (cap - limit.kept) if cap else 0
                if share > found[0]:
                    found = (share, used, cap, limit.AXIS, envelope.name)
        return found

    def add_watcher(self, watcher: "Callable[[], object]") -> None:
        """Have `watcher()` called whenever a limit may have changed, in the whole tree."""
        self._watchers.append(watcher)

    def remove_watcher(self, watcher: "Callable[[], object]") -> None:
        """Call it no more."""
        self._watchers.remove(watcher)

    def changed(self) -> None:
        """Call all watchers; no lock is held."""
        for watcher in list(self._watchers):
            watcher()

    def _draws(self) -> "list[tuple[str, Draw]]":
        axes = ("turns", "tokens", "nano_usd", "tool_calls", "reflections")
        return [(axis, getattr(self, axis)) for axis in axes]


class Pause:
    """What `Envelope.paused` returns."""

    def __init__(self, envelope: Envelope, reason: str) -> None:
        self._envelope = envelope
        self._reason = reason

    def __enter__(self) -> None:
        envelope = self._envelope
        with envelope.lock:
            envelope.watch.pause()
        self._since = envelope.watch.clock.read()
        envelope.changed()

    def __exit__(self, *error: object) -> None:
        envelope = self._envelope
        clock = envelope.watch.clock
        ms = max(0, clock.read() - self._since) // clock.per_ms
        with envelope.lock:
            envelope.watch.resume()
            envelope.pauses.append({"reason": self._reason, "ms": ms})
        envelope.changed()

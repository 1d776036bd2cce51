"""What may still be used of an open budget, here and above, and which limit says no."""

from budget_core.agent.allowance_tree import Draw
from budget_core.agent.stop import (
    AtMost,
    MaxCost,
    MaxElapsed,
    MaxIterations,
    MaxTokens,
    MaxToolCalls,
    StopReason,
)
from budget_core.agent.stopwatch import Stopwatch
from budget_core.monotonic import MONOTONIC, in_ms
from budget_core.turn_budget import TurnBudget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Lock
    from budget_core.agent.budget import Budget
    from budget_core.agent.envelope import Envelope
    from budget_core.deadline import Deadline
    from budget_core.monotonic import MonotonicClock

_LIMITS = (
    ("turns", MaxIterations),
    ("tokens", MaxTokens),
    ("nano_usd", MaxCost),
    ("tool_calls", MaxToolCalls),
)


class Bounds(TurnBudget):
    """The counts and the clock of a budget in use, and those of all that it draws on.

    `Envelope` says what its parts are, and opens it.
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
        budget: "Budget",
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
        self.estimated = self.missing = self.unpriced = 0
        self.queue: list[Any] = [] if parent is None else parent.queue
        self.in_use = False
        self.notes: dict[int, Any] = {}
        self.ledger: Any = None if parent is None else parent.ledger
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

    def chain(self) -> "list[Envelope]":
        """Return this envelope and all above it, the nearest first."""
        found: list[Any] = [self]
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

    def _draws(self) -> "list[tuple[str, Draw]]":
        axes = ("turns", "tokens", "nano_usd", "tool_calls", "reflections")
        return [(axis, getattr(self, axis)) for axis in axes]

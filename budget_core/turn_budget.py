"""The envelope of one agent turn: how long, how many steps, tool calls and reflections."""

from budget_core.allowance import Allowance
from budget_core.checks import NoLock, check_count, check_limit
from budget_core.deadline import Deadline
from budget_core.durations import in_ms
from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from budget_core._types import Lock
    from budget_core.monotonic import MonotonicClock


class TurnBudget:
    """What one turn may use, and what it has used of it; made by `create`.

    `deadline` is when the turn is over; `steps`, `tool_calls` and `reflections` are `Allowance`s;
    `max_context_tokens` is what fits the context, `min_tool_s` the seconds that a tool gets however
    late it starts.
    """

    DEADLINE = Deadline
    LOCK: "Callable[[], Lock]" = NoLock

    def __init__(
        self,
        deadline: Deadline,
        max_steps: int | None,
        max_tool_calls: int | None,
        max_reflections: int | None,
        max_context_tokens: int | None,
        min_tool_s: float,
        lock: "Lock | None" = None,
    ) -> None:
        self.deadline = deadline
        self.max_context_tokens = check_limit("max_context_tokens", max_context_tokens)
        in_ms("min_tool_s", min_tool_s)
        self.min_tool_s = min_tool_s
        self.lock = lock = lock or self.LOCK()
        self.steps = Allowance("max_steps", max_steps, lock)
        self.tool_calls = Allowance("max_tool_calls", max_tool_calls, lock)
        self.reflections = Allowance("max_reflections", max_reflections, lock)

    @classmethod
    def create(
        cls,
        timeout_s: float | None = 60,
        max_steps: int | None = 6,
        max_tool_calls: int | None = None,
        max_reflections: int | None = 4,
        max_context_tokens: int | None = 200_000,
        min_tool_s: float = 5.0,
        clock: "MonotonicClock" = MONOTONIC,
        lock: "Lock | None" = None,
    ) -> "Self":
        """Return the budget of a turn that begins now.

        - `timeout_s`: seconds that the turn may take.
        - `max_steps`: LLM calls.
        - `max_tool_calls`: tool calls; `None` takes `max_steps`.
        - `max_reflections`: reflections on the draft of an answer.
        - `max_context_tokens`: tokens that fit the context.
        - `min_tool_s`: the least that `per_tool_remaining_s` gives a tool. A tool that starts
          right before the turn's end may outlive the turn by as much; 0 keeps it within.

        `None` is unlimited (but see `max_tool_calls`), `0` is nothing. Raises `ValueError` naming
        what is wrong.
        """
        deadline = cls.DEADLINE.never(clock)
        if timeout_s is not None:
            in_ms("timeout_s", timeout_s)
            deadline = cls.DEADLINE.from_now(timeout_s, clock)
        calls = max_steps if max_tool_calls is None else max_tool_calls
        limits = (max_steps, calls, max_reflections, max_context_tokens)
        return cls(deadline, *limits, min_tool_s, lock)

    def remaining_s(self) -> float:
        """Return the seconds left: 0 when the turn is over, infinity where it has no limit."""
        return self.deadline.remaining_seconds()

    def is_expired(self) -> bool:
        """Tell whether the turn's time is over."""
        return self.deadline.is_expired()

    def deadline_within(self, cap_s: float | None = None) -> Deadline:
        """Return the turn's deadline, or the one `cap_s` seconds from now if that is earlier."""
        if cap_s is None:
            return self.deadline
        return self.deadline.within_ms(in_ms("cap_s", cap_s))

    def tool_deadline(self, cap_s: float | None = None) -> float:
        """Return that deadline's instant, in seconds of the monotonic clock."""
        return self.deadline_within(cap_s).instant

    def per_tool_remaining_s(self, cap_s: float | None = None) -> float:
        """Return the seconds that a tool which starts now is given before it is abandoned.

        What is left of the turn, at least `min_tool_s`, and whatever else, at most `cap_s`.
        """
        left = max(self.remaining_s(), self.min_tool_s)
        if cap_s is None:
            return left
        in_ms("cap_s", cap_s)
        return min(left, cap_s)

    def claim_step(self) -> bool:
        """Use one LLM call and return `True`, or return `False` where none is left."""
        return self.steps.claim()

    def claim_tool_call(self, name: str = "") -> bool:
        """Use one tool call and return `True`, or return `False` where none is left."""
        return self.tool_calls.claim()

    def claim_reflection(self) -> bool:
        """Use one reflection and return `True`, or return `False` where none is left."""
        return self.reflections.claim()

    def fits_context(self, tokens: int) -> bool:
        """Tell whether that many tokens fit the context."""
        check_count("tokens", tokens)
        return self.max_context_tokens is None or tokens <= self.max_context_tokens

    def snapshot(self) -> "dict[str, Any]":
        """Return a copy of what is used and what is left, all of one instant."""
        with self.lock:
            left = self.remaining_s()
            seen: dict[str, Any] = {"remaining_s": left, "expired": left <= 0}
            for name in ("steps", "tool_calls", "reflections"):
                allowance = getattr(self, name)
                for key, value in (("used", allowance.used), ("max", allowance.cap)):
                    seen[name + "_" + key] = value
        return seen

"""Conditions that end a run beside the limits of its budget."""

from budget_core.agent.stop import StopReason, at_limit
from budget_core.checks import check_count, check_kind
from budget_core.durations import in_ms
from budget_core.money import in_nano

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Dollars, Messages


class StopCondition:
    """Says of an `Envelope` whether its run is to end; `a | b` and `a & b` combine two.

    A subclass defines `check(envelope)`, which is asked before each LLM call. One that looks at the
    conversation defines `note(messages, envelope)` too, and keeps what it notes in
    `envelope.notes`, a dict that is empty when a run begins. One that keeps anything in itself
    defines `reset()`, and serves one run at a time.
    """

    def check(self, envelope: "Any") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        return None

    def note(self, messages: "Messages", envelope: "Any") -> None:
        """Look at the conversation before an LLM call."""

    def reset(self) -> None:
        """Forget the last run: another begins."""

    def __or__(self, other: "StopCondition") -> "StopCondition":
        return AnyOf(self, other)

    def __and__(self, other: "StopCondition") -> "StopCondition":
        return AllOf(self, other)


class AnyOf(StopCondition):
    """Fires when the first of its conditions does, and for its reason."""

    def __init__(self, *conditions: StopCondition) -> None:
        for condition in conditions:
            check_kind("conditions", condition, StopCondition)
        self.conditions = conditions

    def check(self, envelope: "Any") -> StopReason | None:
        """Return the reason of the first condition that fires."""
        for condition in self.conditions:
            reason = condition.check(envelope)
            if reason is not None:
                return reason
        return None

    def note(self, messages: "Messages", envelope: "Any") -> None:
        """Show the conversation to each condition."""
        for condition in self.conditions:
            condition.note(messages, envelope)

    def reset(self) -> None:
        """Reset each condition."""
        for condition in self.conditions:
            condition.reset()


class AllOf(AnyOf):
    """Fires when all of its conditions do at the same time; `causes` has their reasons."""

    def check(self, envelope: "Any") -> StopReason | None:
        """Return the first reason with all of them as causes; every condition is asked."""
        reasons = [condition.check(envelope) for condition in self.conditions]
        causes = [reason for reason in reasons if reason is not None]
        if not causes or len(causes) < len(reasons):
            return None
        text = " and ".join([str(cause) for cause in causes])
        return StopReason(causes[0].kind, text, scope=causes[0].scope, causes=causes)


class AtMost(StopCondition):
    """Fires when a limit is used up; a subclass says of which `AXIS`."""

    AXIS = ""

    def __init__(self, limit: int) -> None:
        self.limit = check_count("limit", limit)

    def check(self, envelope: "Any") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        return at_limit(envelope, self.AXIS, self.limit)


class MaxIterations(AtMost):
    """Fires when that many LLM calls are made."""

    AXIS = "turns"


class MaxTokens(AtMost):
    """Fires when that many tokens are used."""

    AXIS = "tokens"


class MaxCost(AtMost):
    """Fires when that many US dollars are spent, such as `"0.50"` or 0.5."""

    AXIS = "nano_usd"

    def __init__(self, usd: "Dollars") -> None:
        super().__init__(in_nano("usd", usd))


class MaxToolCalls(AtMost):
    """Fires when more than that many tool calls were asked for, refused ones included."""

    AXIS = "tool_calls"


class Timeout(AtMost):
    """Fires that many seconds after the run began, declared pauses left out."""

    AXIS = "elapsed_ms"

    def __init__(self, seconds: float) -> None:
        ms = in_ms("seconds", seconds)
        super().__init__((1 << 60) - 1 if ms is None else ms)

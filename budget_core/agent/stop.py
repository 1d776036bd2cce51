"""Say when a run is to end, and why."""

from budget_core.checks import check_count
from budget_core.errors import BudgetError
from budget_core.monotonic import in_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import EnvelopeView, Messages


class StopReason:
    """Why a run ended before the model had finished its answer.

    - `kind`: one of the constants.
    - `axis`, `used`, `limit`: the figures that caused it, in whole numbers (turns, tokens,
      milliseconds, nano-USD).
    - `kept`: the part of the limit that is reserved for the last call.
    - `scope`: the name of the envelope whose limit it was.
    - `reason`: the words given with an explicit stop.
    - `error`: the exception that was raised.
    - `causes`: the reasons that came together.
    """

    TURN_LIMIT = "turn_limit"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - no password
    TIMEOUT = "timeout"
    EXPLICIT_STOP = "explicit_stop"
    TOOL_CALL_LIMIT = "tool_call_limit"
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"
    NO_PROGRESS = "no_progress"
    CANCELLED = "cancelled"
    PROVIDER_ERROR = "provider_error"
    CUT_OFF = "cut_off"
    FAILED = "failed"

    def __init__(
        self,
        kind: str,
        reason: str = "",
        axis: str = "",
        used: int | None = None,
        limit: int | None = None,
        kept: int = 0,
        scope: str = "run",
        error: "BaseException | None" = None,
        causes: "Sequence[StopReason]" = (),
    ) -> None:
        self.kind = kind
        self.reason = reason
        self.axis = axis
        self.used = used
        self.limit = limit
        self.kept = kept
        self.scope = scope
        self.error = error
        self.causes = tuple(causes)

    def __str__(self) -> str:
        if self.causes:
            return self.reason
        text = self.kind.replace("_", " ")
        if self.used is not None:
            text += f": {self.used} of {self.limit} {self.axis}"
            if self.kept:
                text += f", {self.kept} kept for the last call"
        if self.scope != "run":
            text += f" ({self.scope})"
        return f"{text}: {self.reason}" if self.reason else text

    def __repr__(self) -> str:
        return f"<StopReason: {self}>"


class StopRequested(BudgetError):  # noqa: N818 - the name users know
    """Raised by middleware to end the run; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StoppedError(BudgetError):
    """No further LLM call is made in this run; `reason` is the `StopReason`."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(str(reason))
        self.reason = reason


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
    """Fires when a limit less what is `kept` of it is used.

    A subclass says of what: `COUNT` is the envelope's attribute, `AXIS` its name in reasons.
    """

    KIND = AXIS = COUNT = ""

    def __init__(self, limit: int, kept: int = 0) -> None:
        self.limit = check_count("limit", limit)
        self.kept = check_count("kept", kept)

    def used(self, envelope: "EnvelopeView") -> int:
        """Return what is used."""
        used: int = getattr(envelope, self.COUNT).used
        return used

    def check(self, envelope: "Any") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        used = self.used(envelope)
        if used < self.limit - self.kept:
            return None
        return StopReason(self.KIND, "", self.AXIS, used, self.limit, self.kept, envelope.name)


class MaxIterations(AtMost):
    """Fires when that many LLM calls are made."""

    KIND = StopReason.TURN_LIMIT
    AXIS = COUNT = "turns"


class MaxTokens(AtMost):
    """Fires when that many tokens are used."""

    KIND = StopReason.TOKEN_BUDGET
    AXIS = COUNT = "tokens"


class MaxCost(AtMost):
    """Fires when that many nano-USD (billionths of a dollar) are spent."""

    KIND, AXIS, COUNT = StopReason.COST_LIMIT, "nano-USD", "nano_usd"


class MaxToolCalls(AtMost):
    """Fires when more than that many tool calls were asked for, refused ones included."""

    KIND, AXIS, COUNT = StopReason.TOOL_CALL_LIMIT, "tool calls", "tool_calls"

    def used(self, envelope: "EnvelopeView") -> int:
        """Return the calls, refused ones included."""
        calls: int = envelope.tool_calls.used + envelope.tool_calls.refused
        return calls

    def check(self, envelope: "Any") -> StopReason | None:
        """Return why the run is to end, or `None`."""
        return super().check(envelope) if self.used(envelope) > self.limit else None


class MaxElapsed(AtMost):
    """Fires when that many milliseconds have passed, declared pauses left out."""

    KIND, AXIS = StopReason.TIMEOUT, "ms"

    def used(self, envelope: "EnvelopeView") -> int:
        """Return the milliseconds."""
        return envelope.elapsed_ms()


class Timeout(MaxElapsed):
    """Fires that many seconds after the run began, declared pauses left out."""

    def __init__(self, seconds: float) -> None:
        ms = in_ms("seconds", seconds)
        super().__init__((1 << 60) - 1 if ms is None else ms)


def in_words(error: BaseException) -> str:
    """Return an error's type and text; a foreign one may fail to give its text."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return type(error).__name__

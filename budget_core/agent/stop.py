"""Say when a run is to end, and why."""

from budget_core.errors import BudgetError
from budget_core.lazy_call import lazy_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from budget_core._types import EnvelopeView


class StopReason:
    """Why a run ended before the model had finished its answer.

    - `kind`: one of the constants.
    - `axis`, `used`, `limit`: the figures that caused it, in whole numbers (turns, tokens,
      milliseconds, nano-USD, which the text shows in dollars).
    - `kept`: the part of the limit that is reserved for the final call.
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
            axis = ("", self.axis, self.used, self.limit or 0, self.kept)
            text += ": " + lazy_call("budget_core.notices", "figures", axis)
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


AXES = {
    "turns": (StopReason.TURN_LIMIT, "turns"),
    "tokens": (StopReason.TOKEN_BUDGET, "tokens"),
    "nano_usd": (StopReason.COST_LIMIT, "nano_usd"),
    "tool_calls": (StopReason.TOOL_CALL_LIMIT, "tool calls"),
    "elapsed_ms": (StopReason.TIMEOUT, "ms"),
}
"""What an envelope counts and a limit may end: the reason's kind, and the axis in words."""


def at_limit(envelope: "EnvelopeView", axis: str, limit: int, kept: int = 0) -> StopReason | None:
    """Return the reason to stop once `limit` less `kept` of an axis is used, or `None`.

    Tool calls are at their limit when more than that many were asked for, refused ones included.
    """
    used = envelope.used(axis)
    if used <= limit if axis == "tool_calls" else used < limit - kept:
        return None
    return StopReason(AXES[axis][0], "", AXES[axis][1], used, limit, kept, envelope.name)


def in_words(error: BaseException) -> str:
    """Return an error's type and text; a foreign one may fail to give its text."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001
        return type(error).__name__

"""The result of a run, however it ended."""

from budget_core.errors import BudgetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages
    from budget_core.agent.envelope import Envelope
    from budget_core.agent.stop import StopReason
    from budget_core.turn_state import TurnRuntimeState

_SHOWN = 200


class RunStoppedError(BudgetError):
    """Raised by `OperativeResult.check`: `result` has the work that was done, and the reason."""

    def __init__(self, result: "OperativeResult") -> None:
        super().__init__(f"the run was stopped: {result.reason}")
        self.result = result


class OperativeResult:
    """The result of a run.

    - `text`: the answer; of a run that was stopped, what there is of one.
    - `reason`: a `StopReason`, or `None` if the model finished its answer.
    - `messages`: the whole conversation, notices left out; it can begin the next run.
    - `tool_results`: a dict a tool call, in their order: `id`, `name`, `arguments`, `status`,
      `content`.
    - `usage`: whole numbers by axis, as `Envelope.usage` has them.
    - `turns`: the LLM calls of this run itself.
    - `budget`, `state`: the run's `Envelope` and `TurnRuntimeState`.
    - `hook_error`: the last error that `on_event` raised, or `None`.
    """

    hook_error: Exception | None = None

    def __init__(
        self,
        text: str,
        reason: "StopReason | None",
        messages: "Messages",
        turns: int,
        budget: "Envelope",
        state: "TurnRuntimeState",
    ) -> None:
        self.text = text
        self.reason = reason
        self.messages = messages
        self.turns = turns
        self.budget = budget
        self.state = state
        self.tool_results = state.tool_results
        self.usage = budget.usage()

    def __repr__(self) -> str:
        how = "completed" if self.reason is None else self.reason.kind
        return f"<OperativeResult: {how}, {self.turns} turns, {self.usage['tokens']} tokens>"

    @property
    def completed(self) -> bool:
        """Whether the model finished its answer."""
        return self.reason is None

    def check(self) -> "OperativeResult":
        """Return this result, or raise `RunStoppedError` where the run was stopped."""
        if self.reason is not None:
            raise RunStoppedError(self)
        return self


def digest(tool_results: "list[dict[str, Any]]") -> str:
    """Return the last tool results, shortened, where there is no better answer."""
    lines = []
    for entry in tool_results[-5:]:
        text = " ".join(entry["content"].split())
        shown = text[:_SHOWN] + "…" if len(text) > _SHOWN else text
        lines.append(f"- {entry.get('name', 'tool')}: {shown}")
    return "What the tools returned:\n" + "\n".join(lines) if lines else ""

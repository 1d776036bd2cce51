"""The core's turn budget and turn state under a lock: tools' threads may share them."""

from threading import Lock

from budget_core import turn_budget, turn_records, turn_state
from budget_cpython.config import dataclass_of
from budget_cpython.context.deadline import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.turn_records import CitationAccumulator as CitationAccumulator
    from budget_core.turn_records import ToolTraceEntry as ToolTraceEntry
else:
    CitationAccumulator = dataclass_of(
        turn_records.CitationAccumulator, __name__, frozen=False, coerce=True
    )
    ToolTraceEntry = dataclass_of(turn_records.ToolTraceEntry, __name__, frozen=True, coerce=False)


class TurnBudget(turn_budget.TurnBudget):
    """The limits of one turn, claimed right by any number of threads; made by `create`.

    `deadline` is when the turn is over; `steps`, `tool_calls` and `reflections` are `Allowance`s;
    `max_context_tokens` is what fits the context, `min_tool_s` the seconds that a tool gets however
    late it starts.
    """

    DEADLINE = Deadline
    LOCK = Lock
    deadline: Deadline


class TurnRuntimeState(turn_state.TurnRuntimeState):
    """The one mutable object of a turn, written right by any number of threads.

    It has the turn's tokens, tool results, citations and trace of tool calls, and drops what comes
    after `close_writes()`. A trace entry is frozen: an entry that was read does not change.
    """

    LOCK = Lock
    RECORDS = __name__
    budget: TurnBudget

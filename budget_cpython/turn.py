"""The core's turn budget and turn state under a lock: tools' threads may share them."""

from threading import Lock

from budget_core import turn_budget, turn_records, turn_state
from budget_cpython.core_dataclasses import dataclass_of
from budget_cpython.deadline import Deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    class CitationAccumulator(turn_records.CitationAccumulator):
        """The core's, as a dataclass."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class ToolTraceEntry(turn_records.ToolTraceEntry):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:
    CitationAccumulator = dataclass_of(
        turn_records.CitationAccumulator, __name__, frozen=False, coerce=True
    )
    ToolTraceEntry = dataclass_of(turn_records.ToolTraceEntry, __name__, frozen=True, coerce=False)


class TurnBudget(turn_budget.TurnBudget):
    """What one turn may use, claimed right by any number of threads; made by `create`."""

    DEADLINE = Deadline
    LOCK = Lock
    deadline: Deadline


class TurnRuntimeState(turn_state.TurnRuntimeState):
    """The one mutable object of a turn, written right by any number of threads.

    A trace entry is frozen: an entry that was read does not change.
    """

    LOCK = Lock
    RECORDS = __name__
    budget: TurnBudget

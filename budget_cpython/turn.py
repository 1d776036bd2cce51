"""The core's turn budget and turn state under a lock: tools' threads may share them."""

from threading import Lock

from budget_core import turn_budget, turn_state
from budget_cpython.deadline import Deadline
from budget_cpython.derive import dataclass_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn

    class CitationAccumulator(turn_state.CitationAccumulator):
        """The core's, as a dataclass."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class ToolTraceEntry(turn_state.ToolTraceEntry):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:
    CitationAccumulator = dataclass_of(
        turn_state.CitationAccumulator, __name__, frozen=False, coerce=True
    )
    ToolTraceEntry = dataclass_of(turn_state.ToolTraceEntry, __name__, frozen=True, coerce=False)


class Snapshot(dict[str, "Any"]):
    """A dict that does not change: `dict(snapshot)` is one that does."""

    def _refuse(self, *args: object, **more: object) -> "NoReturn":
        raise TypeError("a snapshot does not change; dict(snapshot) is a copy that does")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> "tuple[type[Snapshot], tuple[dict[str, Any]]]":
        return type(self), (dict(self),)


class TurnBudget(turn_budget.TurnBudget):
    """What one turn may use, claimed right by any number of threads; made by `create`.

    `snapshot()` is frozen. Everything else is the core's.
    """

    DEADLINE = Deadline
    LOCK = Lock
    deadline: Deadline

    def snapshot(self) -> Snapshot:
        """Return what is used and what is left, all of one instant."""
        return Snapshot(super().snapshot())


class TurnRuntimeState(turn_state.TurnRuntimeState):
    """The one mutable thing of a turn, written right by any number of threads.

    A trace entry is frozen: what one has read of a call stays as it was. Everything else is the
    core's.
    """

    LOCK = Lock
    CITATIONS = CitationAccumulator
    ENTRY = ToolTraceEntry
    budget: TurnBudget

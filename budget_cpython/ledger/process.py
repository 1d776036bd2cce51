"""The process of a ledger on CPython: it notes calls, and knows answers' lengths and deadlines."""

from contextlib import suppress

from budget_core.ledger.hold import Process
from budget_cpython.context.deadline import Deadline
from budget_cpython.ledger.refusals import as_one_call
from budget_cpython.ledger.usage_log import note_call
from budget_cpython.vendors.answer_lengths import longest_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NotingProcess(Process):
    """A process that notes usage by model and refusals, and whose deadline bounds every wait."""

    charged = staticmethod(note_call)
    as_one_call = staticmethod(as_one_call)
    longest_answer = staticmethod(longest_answer)

    def seconds_left(self) -> float:
        """Return the seconds until the current deadline."""
        return Deadline.current().remaining_seconds()


PROCESS = NotingProcess()


def give_process(ledger: "Any") -> None:
    """Give this process to a ledger that has none, such as one of another package."""
    if not hasattr(ledger, "process"):
        with suppress(AttributeError):  # one that takes no attributes is asked without it
            ledger.process = PROCESS

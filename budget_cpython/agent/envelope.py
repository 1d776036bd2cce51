"""The core's envelope under a lock: runs in threads may draw on the same one."""

from budget_core.agent import envelope as core
from budget_cpython.agent.run_config import Budget
from budget_cpython.turn import TurnBudget


class Envelope(core.Envelope, TurnBudget):  # type: ignore[misc] # a deadline of its own making
    """A `Budget` that a run has opened, claimed right by any number of threads.

    Children may be opened, run and stopped in threads of their own, each under a loop of its own.
    Everything else is the core's.
    """

    budget: Budget

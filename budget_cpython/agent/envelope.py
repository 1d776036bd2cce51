"""The core's envelope under a lock: runs in threads may draw on the same one."""

from threading import Lock

from budget_core.agent import envelope as core
from budget_cpython.agent.run_config import Budget
from budget_cpython.turn import TurnBudget


class Envelope(core.Envelope, TurnBudget):  # type: ignore[misc, override] # its deadline is computed
    """A `Budget` that a run has opened, claimed right by any number of threads.

    Children may be opened, run and stopped in threads of their own, each under a loop of its own.
    Everything else is the core's.
    """

    LOCK = Lock
    DEADLINES = "budget_cpython.deadline"
    min_tool_s = 0.0  # no tool outlives its run
    budget: Budget

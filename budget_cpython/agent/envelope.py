"""The core's envelope under a lock: runs in threads may draw on the same one."""

from threading import Lock

from budget_core.agent import envelope as core
from budget_cpython.agent.run_config import Budget
from budget_cpython.turn import TurnBudget


class Envelope(core.Envelope, TurnBudget):  # type: ignore[misc, override] # its deadline is computed
    """A `Budget` that a run has opened, claimed right by any number of threads; made by `open`.

    `turns`, `tokens`, `nano_usd`, `tool_calls` and `reflections` have what is `used` and the `cap`;
    `usage()` and `remaining()` give all of them. `extend`, `stop` and `paused` act on it from
    outside.

    A `child` draws on its parent, and every claim is checked against its own limits and all those
    above. Children may be opened, run and stopped in threads of their own, each under a loop of its
    own.
    """

    LOCK = Lock
    DEADLINES = "budget_cpython.context.deadline"
    min_tool_s = 0.0  # no tool outlives its run
    budget: Budget

"""The core's exoclaw adapter, its envelopes under a lock."""

from budget_core.agent import exoclaw as core
from budget_cpython.agent.envelope import Envelope


class ExoclawBudget(core.ExoclawBudget):
    """exoclaw's provider and iteration policy in one, whose budget threads may share.

    Give it to an `AgentLoop` as `provider` and as `iteration_policy`. `provider` is the model's.
    With a `Budget` each turn of the loop has a whole one; an `Envelope` is used as it is. Further
    options are those of an `Operative`: `wind_down`, `stop_when`, `prices` and so on. `budget` is
    the `Envelope` in use, and `reason` why a turn was stopped, or `None`.
    """

    ENVELOPE = Envelope

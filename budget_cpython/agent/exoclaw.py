"""The core's exoclaw adapter, its envelopes under a lock."""

from budget_core.agent import exoclaw as core
from budget_cpython.agent.envelope import Envelope


class ExoclawBudget(core.ExoclawBudget):
    """exoclaw's provider and iteration policy in one, whose budget threads may share.

    Everything else is the core's.
    """

    ENVELOPE = Envelope

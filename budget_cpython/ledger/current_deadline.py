"""Have the current deadline bound the waits of every ledger."""

from budget_core.ledger.records import DEADLINES
from budget_cpython.deadline import Deadline

DEADLINES.append(lambda: Deadline.current().remaining_seconds())

"""Ledgers: budgets that many calls, agents, processes and machines share."""

from budget_core.ledger.records import DEADLINES, LONGEST
from budget_cpython.answer_lengths import longest_answer
from budget_cpython.deadline import Deadline
from budget_cpython.ledger import errors  # noqa: F401 - whose import lets errors be pickled
from budget_cpython.ledger.memory import Ledger

__all__ = ["Ledger"]

LONGEST.append(longest_answer)
DEADLINES.append(lambda: Deadline.current().remaining_seconds())  # it bounds every ledger's waits

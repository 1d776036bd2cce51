"""Ledgers: budgets that many calls, agents, processes and machines share."""

from budget_core.ledger.records import ATTEMPTS, CHARGED, DEADLINES, LONGEST
from budget_cpython.deadline import Deadline
from budget_cpython.ledger import errors  # noqa: F401 - whose import lets errors be pickled
from budget_cpython.ledger.memory import Ledger
from budget_cpython.ledger.refusals import as_one_call
from budget_cpython.ledger.usage_log import note_call
from budget_cpython.prices.answer_lengths import longest_answer

__all__ = ["Ledger"]

ATTEMPTS.append(as_one_call)
CHARGED.append(note_call)
LONGEST.append(longest_answer)
DEADLINES.append(lambda: Deadline.current().remaining_seconds())  # it bounds every ledger's waits

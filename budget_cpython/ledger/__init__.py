"""Ledgers: budgets that many calls, agents, processes and machines share."""

from budget_cpython.ledger import errors  # noqa: F401 - whose import lets errors be pickled
from budget_cpython.ledger.memory import Ledger

__all__ = ["Ledger"]

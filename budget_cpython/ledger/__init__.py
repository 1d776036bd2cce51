"""Ledgers: budgets that many calls, agents, processes and machines share."""

from budget_cpython.ledger.memory import Ledger

__all__ = ["Ledger"]

"""Keep a ledger in an SQLite file, which threads, processes and restarts share."""

from budget_cpython.ledger.sqlite.ledger import SqliteLedger

__all__ = ["SqliteLedger"]

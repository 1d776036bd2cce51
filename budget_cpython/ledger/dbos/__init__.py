"""Ledgers and budget state in DBOS workflows, exactly once whatever crashes and is replayed."""

try:
    import dbos as _dbos
except ImportError as error:
    text = "budgets in DBOS workflows need the dbos package: pip install 'microbudget[dbos]'"
    raise ImportError(text) from error

from budget_cpython.ledger.dbos.ledger import AsyncDBOSLedger, DBOSLedger
from budget_cpython.ledger.dbos.store import DBOSBudgetStore

__all__ = ["AsyncDBOSLedger", "DBOSBudgetStore", "DBOSLedger"]
del _dbos

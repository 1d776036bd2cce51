"""A ledger on Postgres: one function on the server, and one round trip, for each operation."""

try:
    import psycopg as _psycopg  # noqa: F401 - to say what is missing
    import psycopg_pool as _psycopg_pool  # noqa: F401
except ImportError as error:
    raise ImportError("a ledger on Postgres needs: pip install 'microbudget[postgres]'") from error

from budget_cpython.ledger.postgres.ledgers import AsyncPostgresLedger, PostgresLedger

__all__ = ["AsyncPostgresLedger", "PostgresLedger"]

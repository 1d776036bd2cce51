"""The ledgers on Postgres: one for threads, one for asyncio."""

from collections.abc import Callable, Sequence
from typing import Unpack

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_cpython.ledger.postgres.backend import PostgresBackend
from budget_cpython.ledger.postgres.connections import ASYNCIO, THREADS, Driver
from budget_cpython.ledger.postgres.conninfo import check_schema, complete
from budget_cpython.ledger.postgres.place import LedgerId, Place
from budget_cpython.ledger.postgres.spread import SpreadBackend
from budget_cpython.ledger.remote import AsyncRemoteLedger, RemoteLedger, RemoteOptions

Conninfo = str | Callable[[], str]


class _PostgresConstructor:
    """The constructor of both ledgers, which differ in their `_driver`."""

    _driver: Driver

    def __init__(
        self,
        conninfo: Conninfo | Sequence[Conninfo],
        *,
        schema: str = "microbudget",
        migrate: bool = True,
        timeout: float = 5.0,
        max_connections: int = 4,
        behind_pooler: bool = False,
        **options: Unpack[RemoteOptions],
    ) -> None:
        number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if not number or not 0 < timeout < 3600:
            refuse("timeout", "seconds above 0, below an hour", timeout)
        if not check_count("max_connections", max_connections):
            refuse("max_connections", "1 or more", max_connections)
        each = [conninfo] if isinstance(conninfo, str) or callable(conninfo) else list(conninfo)
        if not each:
            refuse("conninfo", "a connection string, or a list of them", conninfo)
        ledger = LedgerId()
        backends = [
            PostgresBackend(
                self._driver,
                complete(one, timeout, behind_pooler),
                check_schema(schema),
                migrate,
                Place(number, len(each), ledger),
                timeout=timeout,
                most=max_connections,
                prepared_statements=not behind_pooler,
            )
            for number, one in enumerate(each, 1)
        ]
        super().__init__(  # type: ignore[call-arg, misc] # of the class beside this one
            backends[0] if len(backends) == 1 else SpreadBackend(backends),
            **options,
        )


class PostgresLedger(_PostgresConstructor, RemoteLedger):
    """Budgets by path in a Postgres database, for any number of threads, processes and machines.

    - `conninfo`: a connection string or URI as libpq reads it, or a function that returns one, such
      as for passwords that change. A list of them spreads the accounts over several databases by
      their roots; its length and its order never change.
    - `schema`: where its tables are; `migrate`: make and update them, which takes the right to
      create the schema, or to own it.
    - `timeout`: seconds for connecting, for a free connection, and for an operation, each.
    - `max_connections`: how many at a time to a database; more threads wait for one another.
    - `behind_pooler`: there is a pooler in transaction mode between: nothing is prepared or set.

    `clock` is the server's unless given. Everything else is as in `budget_core.Ledger`. An
    operation whose outcome is unknown is sent once more, so an answer may take twice its `timeout`
    and some seconds.

    Raises `LedgerUnavailableError` from any method, `LedgerFullError` where the disk is full, and
    `ValueError` for a conninfo that cannot be read, without showing it.
    """

    _driver = THREADS


class AsyncPostgresLedger(_PostgresConstructor, AsyncRemoteLedger):
    """The same for asyncio, on one event loop at a time."""

    _driver = ASYNCIO

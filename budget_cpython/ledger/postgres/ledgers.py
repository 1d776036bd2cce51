"""The ledgers on Postgres: one for threads, one for asyncio."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import psycopg

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_cpython.ledger.postgres.conninfo import check_schema, complete
from budget_cpython.ledger.postgres.engine import Engine
from budget_cpython.ledger.postgres.pool import TaskPool, ThreadPool
from budget_cpython.ledger.remote import AsyncRemoteLedger, RemoteLedger
from budget_cpython.ledger.windows import Window, parse_window

Connect = Callable[[], "psycopg.Connection[Any]"]
AsyncConnect = Callable[[], Awaitable["psycopg.AsyncConnection[Any]"]]


class PostgresLedger(RemoteLedger):
    """Budgets by path in a Postgres database, for any number of threads, processes and machines.

    - `conninfo`: a connection string or URI as libpq reads it, or a function that opens a
      `psycopg.Connection` in autocommit mode.
    - `schema`: whose tables they are; `migrate`: make and update them, which takes the right to
      create it, or to own it.
    - `timeout`: seconds, of each connecting, waiting for a free connection, and operation.
    - `max_connections`: how many at a time; more threads wait for one another.
    - `behind_pooler`: between is a pooler in transaction mode: nothing is prepared or set.

    `clock` is the server's unless given. Everything else is as in `budget_core.Ledger`. What is
    left in doubt is asked once more, so an answer may take twice its `timeout` and some seconds.

    Raises `LedgerUnavailableError` from any method, `LedgerFullError` where the disk is full, and
    `ValueError` for a conninfo that cannot be read, which it does not show.
    """

    def __init__(
        self,
        conninfo: str | Connect,
        *,
        schema: str = "microbudget",
        migrate: bool = True,
        timeout: float = 5.0,
        max_connections: int = 4,
        behind_pooler: bool = False,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        _check(timeout, max_connections)
        connect = (
            _opener(conninfo, timeout, behind_pooler) if isinstance(conninfo, str) else conninfo
        )
        pool = ThreadPool(connect, max_connections, timeout)
        engine = Engine(pool, check_schema(schema), not behind_pooler, migrate)
        super().__init__(
            AsyncRemoteLedger(
                engine,
                clock=clock,
                windows=windows,
                axes=axes,
                max_accounts=max_accounts,
                keep=keep,
            )
        )


class AsyncPostgresLedger(AsyncRemoteLedger):
    """The same for asyncio, on one event loop at a time.

    A `conninfo` that is a function returns an awaitable `psycopg.AsyncConnection`.
    """

    def __init__(
        self,
        conninfo: str | AsyncConnect,
        *,
        schema: str = "microbudget",
        migrate: bool = True,
        timeout: float = 5.0,
        max_connections: int = 4,
        behind_pooler: bool = False,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        _check(timeout, max_connections)
        connect = (
            _async_opener(conninfo, timeout, behind_pooler)
            if isinstance(conninfo, str)
            else conninfo
        )
        pool = TaskPool(connect, max_connections, timeout)
        super().__init__(
            Engine(pool, check_schema(schema), not behind_pooler, migrate),
            clock=clock,
            windows=windows,
            axes=axes,
            max_accounts=max_accounts,
            keep=keep,
        )


def _check(timeout: Any, max_connections: Any) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 3600:
        refuse("timeout", "seconds above 0, below an hour", timeout)
    if not check_count("max_connections", max_connections):
        refuse("max_connections", "1 or more", max_connections)


def _opener(conninfo: str, timeout: float, pooler: bool) -> Connect:
    complete_one = complete(conninfo, timeout, pooler)

    def connect() -> "psycopg.Connection[Any]":
        return psycopg.Connection.connect(complete_one, autocommit=True)

    return connect


def _async_opener(conninfo: str, timeout: float, pooler: bool) -> AsyncConnect:
    complete_one = complete(conninfo, timeout, pooler)

    async def connect() -> "psycopg.AsyncConnection[Any]":
        return await psycopg.AsyncConnection.connect(complete_one, autocommit=True)

    return connect

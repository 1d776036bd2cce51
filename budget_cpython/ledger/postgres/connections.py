"""Lend connections of psycopg's pools, to threads or to the tasks of an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.blocking import maybe_await
from budget_cpython.ledger.forked import begin_again_in_children
from budget_cpython.ledger.locks import TaskGate, ThreadGate
from budget_cpython.ledger.postgres.error_mapping import ledger_error

GRACE = 1.0  # seconds for the server's own timeout to come first


@dataclass(frozen=True)
class Driver:
    """What threads and asyncio use in psycopg, and what they wait for one another with."""

    connection: Any
    pool: Any
    gate: Callable[[], Any]
    loop: Callable[[], object]


THREADS = Driver(psycopg.Connection, ConnectionPool, ThreadGate, lambda: None)
ASYNCIO = Driver(psycopg.AsyncConnection, AsyncConnectionPool, TaskGate, asyncio.get_running_loop)


class Connections:
    """A pool of up to `most` connections, opened at first use.

    The pool connects in the background, and keeps its errors to itself. So before it is opened, one
    connection is made and given to `prepare`: that raises what is wrong. A pool that lost a
    connection is closed, and the next call opens another. So does a process that was forked, and
    for asyncio another event loop.
    """

    def __init__(
        self,
        driver: Driver,
        conninfo: str | Callable[[], str],
        prepare: Callable[[Any], Awaitable[None]],
        *,
        timeout: float,
        most: int,
        prepared_statements: bool,
    ) -> None:
        self._driver = driver
        self._conninfo = conninfo
        self._prepare = prepare
        self._timeout = timeout
        self._most = most
        self._kind = _bounded(driver.connection, timeout + GRACE)
        self._options = {
            "autocommit": True,
            "prepare_threshold": 0 if prepared_statements else None,
        }
        self._pool: Any = None
        self._loop: object = None
        self._left: list[Any] = []  # pools of the processes this one was forked from
        self._failure: LedgerUnavailableError | None = None
        self._closed = False
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        self._left.append(self._pool)
        self._pool = None
        self._gate = self._driver.gate()

    async def take(self) -> tuple[Any, Any]:
        """Return a pool, and a connection of it to give back."""
        while True:
            pool = await self._open()
            try:
                return pool, await maybe_await(pool.getconn())
            except PoolClosed:
                continue  # another thread has found its connection lost
            except PoolTimeout as error:
                text = f"none of the ledger's {self._most} connections was free"
                raise LedgerUnavailableError(f"{text} within {self._timeout:g} s", error) from None

    async def drop(self, pool: Any) -> None:
        """Close a pool that lost a connection: the others may be lost as well."""
        if self._pool is pool:
            self._pool = None
        await maybe_await(pool.close())

    async def close(self) -> None:
        """Close the connections now, those in use as they are given back."""
        self._closed = True
        pool = self._own_pool()
        if pool is not None:
            await self.drop(pool)

    def _own_pool(self) -> Any:
        """Return the open pool, unless it is of another event loop, which cannot be closed here."""
        return self._pool if self._loop is self._driver.loop() else None

    async def _open(self) -> Any:
        if self._closed:
            raise LedgerUnavailableError("the ledger is closed")
        pool = self._own_pool()
        if pool is not None:
            return pool
        before = self._failure
        async with self._gate:
            pool = self._own_pool()
            if pool is not None:
                return pool
            if self._failure is not before and self._failure is not None:  # while this one waited
                raise LedgerUnavailableError(str(self._failure), self._failure.cause)
            try:
                await self._try_server()
            except LedgerUnavailableError as error:
                self._failure = error
                raise
            pool = self._driver.pool(
                self._conninfo,
                connection_class=self._kind,
                kwargs=self._options,
                min_size=1,
                max_size=self._most,
                timeout=self._timeout,
                reconnect_timeout=self._timeout,
                num_workers=1,
                open=False,
            )
            await maybe_await(pool.open())
            self._pool, self._loop = pool, self._driver.loop()
            return pool

    async def _try_server(self) -> None:
        connection: Any = None
        conninfo = self._conninfo if isinstance(self._conninfo, str) else self._conninfo()
        try:
            connection = await maybe_await(self._kind.connect(conninfo, autocommit=True))
            await self._prepare(connection)
        except psycopg.Error as error:
            raise ledger_error(error, sent=False) from None
        finally:
            if connection is not None:
                await maybe_await(connection.close())


def _bounded(kind: Any, seconds: float) -> Any:
    """Return a kind of connection that waits no longer than that for each answer."""

    class Bounded(kind):  # type: ignore[misc] # threads' or asyncio's
        answer_timeout = seconds

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            return super().wait(gen, interval, self.answer_timeout)

    return Bounded

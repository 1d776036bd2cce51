"""Lend connections of psycopg's pools, to threads or to the tasks of an event loop."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.ledger.locks import TaskGate, ThreadGate
from budget_cpython.ledger.postgres.error_mapping import ledger_error

GRACE = 1.0  # seconds for the server's own timeout to come first


@dataclass(frozen=True)
class Driver:
    """The parts of psycopg for threads or for asyncio, and how these wait for one another."""

    connection: Any
    pool: Any
    gate: Callable[[], Any]
    loop: Callable[[], object]


class _Pool(ConnectionPool[Any]):
    """A pool that is left to the system as an interpreter ends: none of its threads runs then."""

    def __del__(self, is_exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_exiting():  # since Python 3.13 this would wait for them in vain
            super().__del__()


THREADS = Driver(psycopg.Connection, _Pool, ThreadGate, lambda: None)
ASYNCIO = Driver(psycopg.AsyncConnection, AsyncConnectionPool, TaskGate, asyncio.get_running_loop)


class Connections:
    """A pool of up to `most` connections, opened at first use.

    A pool connects in the background and tells no caller what is wrong. So one connection is made
    beside it first and given to `prepare`: their errors are raised. A pool that lost a connection
    is closed, and the next call opens another; so does a forked process, and another event loop.
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
        self._prepare_threshold = 0 if prepared_statements else None
        self._kind = _bounded(driver.connection, timeout + GRACE)
        self._pool: Any = None
        self._loop: object = None
        self._gate = driver.gate()
        self._left: list[Any] = []  # pools of the processes this one was forked from
        self._failure: psycopg.Error | None = None
        self._closed = False
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        self._left.append(self._pool)
        self._pool = None
        self._gate = self._driver.gate()

    async def take(self) -> tuple[Any, Any]:
        """Return a pool, and a connection of it to give back."""
        while True:
            pool = self._usable() or await self._open()
            try:
                return pool, await maybe_await(pool.getconn())
            except PoolClosed:
                continue  # another call has found its connection lost
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
        async with self._gate:
            pool = self._usable()
            if pool is not None:
                await self.drop(pool)

    def _usable(self) -> Any:
        """Return the open pool, unless it is another event loop's."""
        return self._pool if self._loop is self._driver.loop() else None

    async def _open(self) -> Any:
        known = self._failure
        async with self._gate:
            if self._closed:
                raise LedgerUnavailableError("the ledger is closed")
            pool = self._usable()
            if pool is None:
                if self._failure is not None and self._failure is not known:
                    raise ledger_error(self._failure, sent=False)  # of the call this one waited for
                try:
                    pool = await self._connect()
                except psycopg.Error as error:
                    self._failure = error
                    raise ledger_error(error, sent=False) from None
                self._pool, self._loop = pool, self._driver.loop()
        return pool

    async def _connect(self) -> Any:
        conninfo = self._conninfo if isinstance(self._conninfo, str) else self._conninfo()
        connection = await maybe_await(self._kind.connect(conninfo, autocommit=True))
        try:
            await self._prepare(connection)
        finally:
            await maybe_await(connection.close())
        pool = self._driver.pool(
            self._conninfo,
            connection_class=self._kind,
            kwargs={"autocommit": True, "prepare_threshold": self._prepare_threshold},
            min_size=1,
            max_size=self._most,
            timeout=self._timeout,
            reconnect_timeout=self._timeout,
            num_workers=1,
            open=False,
        )
        try:
            await maybe_await(pool.open(wait=True, timeout=self._timeout))
        except BaseException:  # a task that is cancelled
            await maybe_await(pool.close())
            raise
        return pool


def _bounded(kind: Any, seconds: float) -> Any:
    """Return a kind of connection that waits no longer than that for each answer."""

    class Bounded(kind):  # type: ignore[misc] # threads' or asyncio's
        answer_timeout = seconds

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            return super().wait(gen, interval, self.answer_timeout)

    return Bounded

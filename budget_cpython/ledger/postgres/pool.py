"""Lend connections, to threads or to the tasks of an event loop, a few at a time."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.postgres.error_mapping import trouble
from budget_cpython.ledger.postgres.exchange import READ, Selector, Talk, wait, wait_async

T = TypeVar("T")


class Link:
    """A connection, and the names of what was prepared on it."""

    def __init__(
        self, connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]"
    ) -> None:
        self.connection = connection  # kept: it is closed with its last reference
        self.pg = connection.pgconn
        self.prepared: set[bytes] = set()
        self.selector = Selector()
        self.selector.register(self.pg.socket, READ)
        self.checked = False

    def close(self) -> None:
        """End the connection."""
        self.selector.close()
        self.pg.finish()


class Pool:
    """At most `most` connections; one that is given back is lent next."""

    def __init__(self, most: int, timeout: float) -> None:
        self.most = most
        self.timeout = timeout
        self._changed = threading.Condition()
        self._idle: list[Link] = []
        self._left: list[list[Link]] = []  # by the process this one was forked from
        self._closed = False
        self._start()
        _POOLS.add(self)

    def _start(self) -> None:
        """Make what belongs to this process."""

    def forked(self) -> None:
        """Leave the connections to the process that opened them."""
        self._changed = threading.Condition()
        self._left.append(self._idle)
        self._idle = []
        self._start()

    async def take(self) -> Link:
        """Return a connection that nobody else has."""
        raise NotImplementedError

    def give(self, link: Link) -> None:
        """Take one back."""
        raise NotImplementedError

    def drop(self, link: Link) -> None:
        """Take back one that ended, and trust no other that waits: they may have ended with it."""
        link.close()
        self._close_idle()
        self.give(link)

    async def run(self, link: Link, talk: Talk[T], seconds: float) -> T:
        """Run a conversation; raise `TimeoutError` after so many seconds."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close what waits now, and the others as they are given back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._changed:
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _keep(self, link: Link) -> None:
        if self._closed:
            link.close()
        elif link.pg.status == psycopg.pq.ConnStatus.OK:
            self._idle.append(link)

    def _check_open(self) -> None:
        if self._closed:
            raise LedgerUnavailableError("the ledger is closed")

    def _none_free(self) -> LedgerUnavailableError:
        return LedgerUnavailableError(
            f"all {self.most} connections of the ledger were in use for {self.timeout:g} s"
        )


class ThreadPool(Pool):
    """Connections for threads, which wait for one another."""

    def __init__(
        self, connect: "Callable[[], psycopg.Connection[Any]]", most: int, timeout: float
    ) -> None:
        self._connect = connect
        super().__init__(most, timeout)

    def _start(self) -> None:
        self._free = self.most

    async def take(self) -> Link:
        """Wait for a connection, or open one."""
        with self._changed:
            self._check_open()
            if not self._changed.wait_for(lambda: self._free, self.timeout):
                raise self._none_free()
            self._free -= 1
            if self._idle:
                return self._idle.pop()
        try:
            return Link(self._connect())
        except BaseException as error:
            with self._changed:
                self._free += 1
                self._changed.notify()
            if isinstance(error, psycopg.Error):
                raise trouble(error, False) from None
            raise

    def give(self, link: Link) -> None:
        """Let the next thread have it."""
        with self._changed:
            self._keep(link)
            self._free += 1
            self._changed.notify()

    async def run(self, link: Link, talk: Talk[T], seconds: float) -> T:
        """Wait in this thread."""
        return wait(talk, link.selector, link.pg.socket, seconds)


class TaskPool(Pool):
    """Connections for the tasks of one event loop at a time."""

    def __init__(
        self,
        connect: "Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]",
        most: int,
        timeout: float,
    ) -> None:
        self._connect = connect
        super().__init__(most, timeout)

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places = asyncio.Semaphore(self.most)

    async def take(self) -> Link:
        """Wait for a connection, or open one."""
        self._check_open()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._places = loop, asyncio.Semaphore(self.most)
        try:
            async with asyncio.timeout(self.timeout):
                await self._places.acquire()
        except TimeoutError:
            raise self._none_free() from None
        if self._idle:
            return self._idle.pop()
        try:
            return Link(await self._connect())
        except BaseException as error:
            self._places.release()
            if isinstance(error, psycopg.Error):
                raise trouble(error, False) from None
            raise

    def give(self, link: Link) -> None:
        """Let the next task have it."""
        self._keep(link)
        self._places.release()

    async def run(self, link: Link, talk: Talk[T], seconds: float) -> T:
        """Wait on the loop."""
        return await wait_async(talk, link.pg, seconds)


_POOLS: "weakref.WeakSet[Pool]" = weakref.WeakSet()


def _after_fork() -> None:
    for pool in list(_POOLS):
        pool.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

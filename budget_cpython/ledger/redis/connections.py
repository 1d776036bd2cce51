"""Keep connections of a pool of the `redis` library, which looks at each for too long.

A pool sees that a server has hung up before a call, here the call sees it. It is repeated then, on
a new connection: the others are no better. At most `most` are kept, the rest goes back to the pool.
Ledgers on one pool keep them together, however many there are.
"""

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary, proxy

TASKS = 64  # of asyncio at the server at once; the others wait for their turn
_OF_POOLS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def of_pool(kind: Any, pool: Any, most: int) -> Any:
    """Return the connections that are kept of a pool, which lives as long as its client."""
    found = _OF_POOLS.get(pool)
    if found is None:
        found = _OF_POOLS[pool] = kind(proxy(pool), most)
    return found


class Connections:
    """Connections for threads."""

    def __init__(self, pool: Any, most: int) -> None:
        self._pool = pool
        self._most = most
        self._free: list[Any] = []
        self._process = os.getpid()

    def take(self) -> Any:
        """Return a connection that nobody uses."""
        if self._process != os.getpid():  # a fork's connections are its parent's
            self._free, self._process = [], os.getpid()
        try:
            return self._free.pop()
        except IndexError:
            return self._pool.get_connection()

    def give(self, connection: Any) -> None:
        """Take back a connection whose answer was read."""
        if len(self._free) < self._most:
            self._free.append(connection)
        else:
            self._pool.release(connection)

    def lose(self, connection: Any) -> None:
        """Take back one that has failed."""
        self._pool.release(connection)
        self.drop()

    def drop(self) -> None:
        """Close those that nobody uses now."""
        self.part()
        self._pool.disconnect(inuse_connections=False)

    def part(self) -> None:
        """Give back to the pool what was kept."""
        while True:
            try:
                connection = self._free.pop()
            except IndexError:  # by this thread or another one
                return
            self._pool.release(connection)


class AsyncConnections:
    """Connections for asyncio."""

    def __init__(self, pool: Any, most: int) -> None:
        self._pool = pool
        self._most = most
        self._free: list[Any] = []
        self._places = asyncio.Semaphore(min(TASKS, pool.max_connections))

    async def take(self) -> Any:
        """Return a connection that nobody uses, as soon as there is one."""
        await self._places.acquire()
        try:
            return self._free.pop() if self._free else await self._pool.get_connection()
        except BaseException:
            self._places.release()
            raise

    async def give(self, connection: Any) -> None:
        """Take back a connection whose answer was read."""
        if len(self._free) < self._most:
            self._free.append(connection)
        else:
            await self._pool.release(connection)
        self._places.release()

    async def lose(self, connection: Any) -> None:
        """Take back one that has failed."""
        self._places.release()
        await self._pool.release(connection)
        await self.drop()

    async def drop(self) -> None:
        """Close those that nobody uses now."""
        await self.part()
        await self._pool.disconnect(inuse_connections=False)

    async def part(self) -> None:
        """Give back to the pool what was kept."""
        while self._free:
            await self._pool.release(self._free.pop())

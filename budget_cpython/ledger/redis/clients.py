"""Reach a server with the `redis` library, from threads or from asyncio."""

import re
from collections.abc import Sequence
from typing import Any, Protocol

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from budget_cpython.ledger.redis import error_mapping
from budget_cpython.ledger.redis.connections import AsyncConnections, Connections, of_pool

MOST_CONNECTIONS = 10_000  # each thread has one while it waits for an answer
_MISPLACED = re.compile("//[^/?#]*[/?#].*@", re.DOTALL)  # an @ that ends no password


class Client(Protocol):
    """A client of either kind; `repeats` is whether it sends a script again by itself."""

    repeats: bool

    async def script(self, *command: Any) -> Any:
        """Return the answer to a command that runs a script, as it came."""

    async def run(self, *command: Any) -> Any:
        """Return the answer to another command, as the library reads it."""

    async def drop(self) -> None:
        """Let the next command connect anew."""

    async def close(self) -> None:
        """Close all connections."""


class Blocking:
    """A client for threads, of a URL or as given: nothing that is awaited here ever waits.

    Scripts go over the client's connections without its retries, observers and parsing of answers,
    which take longer than a script; a cluster's client has to choose the server itself. A client
    that is given stays its owner's to close.
    """

    def __init__(self, server: Any, timeout: float) -> None:
        self._given = not isinstance(server, str)
        if isinstance(server, str):
            pool = _pool(redis.ConnectionPool, server, timeout, Retry(NoBackoff(), 0))
            server = redis.Redis(connection_pool=pool)
        self.client = server
        pool = getattr(server, "connection_pool", None)
        self._connections = pool and of_pool(Connections, pool, _kept(pool, redis.ConnectionPool))
        self.repeats = pool is None

    async def script(self, *command: Any) -> Any:
        """Return the answer to a command that runs a script, as it came."""
        connections = self._connections
        if connections is None:
            return self.client.execute_command(*command)
        try:
            connection = connections.take()
        except error_mapping.ERRORS as error:
            raise error_mapping.unreached(error) from error
        try:
            connection.send_packed_command((pack(command),))
            answer = connection.read_response()
        except ResponseError:
            connections.give(connection)
            raise
        except BaseException:
            connections.lose(connection)
            raise
        connections.give(connection)
        return answer

    async def run(self, *command: Any) -> Any:
        """Return the answer to another command, as the library reads it."""
        return self.client.execute_command(*command)

    async def drop(self) -> None:
        """Let the next command connect anew; a cluster's client does so by itself."""
        if self._connections is not None:
            self._connections.drop()

    async def close(self) -> None:
        """Close all connections, or give them back."""
        if not self._given:
            await self.drop()
            self.client.close()
        elif self._connections is not None:
            self._connections.part()


class Waiting:
    """The same for asyncio."""

    def __init__(self, server: Any, timeout: float) -> None:
        self._given = not isinstance(server, str)
        if isinstance(server, str):
            pool = _pool(redis.asyncio.ConnectionPool, server, timeout, AsyncRetry(NoBackoff(), 0))
            server = redis.asyncio.Redis(connection_pool=pool)
        self.client = server
        pool = getattr(server, "connection_pool", None)
        most = _kept(pool, redis.asyncio.ConnectionPool)
        self._connections = pool and of_pool(AsyncConnections, pool, most)
        self.repeats = pool is None

    async def script(self, *command: Any) -> Any:
        """Return the answer to a command that runs a script, as it came."""
        connections = self._connections
        if connections is None:
            return await self.client.execute_command(*command)
        try:
            connection = await connections.take()
        except error_mapping.ERRORS as error:
            raise error_mapping.unreached(error) from error
        try:
            await connection.send_packed_command((pack(command),))
            answer = await connection.read_response()
        except ResponseError:
            await connections.give(connection)
            raise
        except BaseException:
            await connections.lose(connection)
            raise
        await connections.give(connection)
        return answer

    async def run(self, *command: Any) -> Any:
        """Return the answer to another command, as the library reads it."""
        return await self.client.execute_command(*command)

    async def drop(self) -> None:
        """Let the next command connect anew; a cluster's client does so by itself."""
        if self._connections is not None:
            await self._connections.drop()

    async def close(self) -> None:
        """Close all connections, or give them back."""
        if not self._given:
            await self.drop()
            await self.client.aclose()
        elif self._connections is not None:
            await self._connections.part()


def pack(command: Sequence[Any]) -> bytes:
    """Return a command as it is sent; the library takes five times as long over it."""
    texts = [str(one) for one in command]
    sent = "".join([f"${len(one)}\r\n{one}\r\n" for one in texts])
    if not sent.isascii():
        sent = "".join([f"${len(one.encode())}\r\n{one}\r\n" for one in texts])
    return f"*{len(texts)}\r\n{sent}".encode()


def _kept(pool: Any, plain: Any) -> int:
    """Return how many connections to keep: half of them, none of a pool that chooses servers."""
    most: int = pool.max_connections if pool.__class__ is plain else 0
    return most // 2


def _pool(kind: Any, url: str, timeout: float, retry: Any) -> Any:
    """Return connections that never try again by themselves: the ledger does, once."""
    try:
        if not _MISPLACED.search(url):
            pool = kind.from_url(
                url,
                max_connections=MOST_CONNECTIONS,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=retry,
            )
            pool.connection_class(**pool.connection_kwargs)  # which knows the options
            return pool
    except (TypeError, ValueError, RedisError):
        pass  # its text may hold a part of the password
    raise ValueError(
        "server must be a URL such as redis://user:password@host:6379/0, its options those that "
        "the redis library knows; a / or @ in a password, and an @ after the host, is written as "
        "%2F or %40"
    )

"""Clients of a Redis Cluster that begin while nodes are out of reach, and its scripts."""

from collections.abc import Sequence
from hashlib import sha1
from typing import Any, Self

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from budget_core.provider import maybe_await

ATTEMPTS = 3  # further nodes that are asked what the cluster is


class LateCluster:
    """A client of a cluster for threads, made by the library's at its first command.

    The library's own connects as it is made, and fails where the nodes are out of reach. Threads
    that ask first at the same time connect each.
    """

    aclose = connection_pool = None  # there is a pool for each node

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._client: Any = None

    def __getattr__(self, command: str) -> Any:
        return getattr(self._client or self.connect_late(), command)

    def connect_late(self) -> Any:
        """Learn which node has which slots."""
        nodes = list(self._options["startup_nodes"])  # the library adds to its own
        retry = Retry(NoBackoff(), ATTEMPTS)
        client = redis.RedisCluster(**{**self._options, "startup_nodes": nodes, "retry": retry})
        client.set_retry(self._options["retry"])
        self._client = client
        return client

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


class AwaitedCluster(redis.asyncio.RedisCluster):
    """A client for asyncio that also begins where the first node is out of reach."""

    async def initialize(self, *arguments: Any, **options: Any) -> Self:
        """Learn which node has which slots, and what commands there are from any of them."""
        for attempt in range(ATTEMPTS + 1):
            try:
                await super().initialize(*arguments, **options)
                break
            except (RedisConnectionError, RedisTimeoutError):
                known = self.nodes_manager.nodes_cache
                if attempt == ATTEMPTS or not known:
                    raise
                first = next(iter(known))
                known[first] = known.pop(first)  # the library asks the first of them
        return self

    async def aclose(self) -> None:
        """Close the connections, also those of a client that was to learn of its nodes again."""
        await super().aclose()
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


class ClusterScript:
    """A script that a node learns as it first runs there.

    The library would tell all nodes, and fail where one of them is out of reach.
    """

    def __init__(self, client: Any, text: str) -> None:
        self._client = client
        self._text = text
        self._digest = sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[bytes], args: Sequence[Any], client: Any = None) -> Any:
        """Run it where the keys are, by its own client."""
        arguments = (len(keys), *keys, *args)
        try:
            return await maybe_await(self._client.evalsha(self._digest, *arguments))
        except NoScriptError:
            return await maybe_await(self._client.eval(self._text, *arguments))


CLUSTERS = (LateCluster, redis.RedisCluster, redis.asyncio.RedisCluster)

"""The ledgers in Redis: one for threads, one for asyncio."""

from typing import Any, Unpack

import redis
import redis.asyncio

from budget_cpython.ledger.redis.backend import RedisBackend
from budget_cpython.ledger.redis.client import open_client
from budget_cpython.ledger.redis.keys import Keys
from budget_cpython.ledger.remote import AsyncRemoteLedger, RemoteLedger, RemoteOptions


class _RedisConstructor:
    """The constructor of both ledgers, which differ in the `_library` of their clients."""

    _library: Any

    def __init__(
        self,
        server: Any,
        *,
        prefix: str = "microbudget",
        timeout: float = 1.0,
        check_eviction: bool = True,
        **options: Unpack[RemoteOptions],
    ) -> None:
        owned = isinstance(server, str)
        client = open_client(self._library, server, timeout) if owned else server
        super().__init__(  # type: ignore[call-arg, misc] # of the class beside this one
            RedisBackend(client, Keys(prefix), owned=owned, check_eviction=check_eviction),
            **options,
        )


class RedisLedger(_RedisConstructor, RemoteLedger):
    """Budgets by path in Redis 6.2 or later, or Valkey, for any number of threads and processes.

    - `server`: a URL as the `redis` library takes it, `redis+cluster://HOST:PORT,HOST:PORT` for
      nodes of a cluster, or one of its clients: a `Redis`, one of a `Sentinel`, or a
      `RedisCluster`. A client keeps its own timeouts and retries, and is its owner's to close.
    - `prefix`: what all keys begin with; two ledgers in one database need two prefixes.
    - `timeout`: seconds for connecting, and for each answer, of a server given by a URL.
    - `check_eviction`: whether to refuse, with a `ValueError` at the first use, a server that may
      evict keys: an evicted hold is one that was never taken.

    `clock` is the server's unless given. Everything else is as in `budget_core.Ledger`.
    """

    _library = redis


class AsyncRedisLedger(_RedisConstructor, AsyncRemoteLedger):
    """The same for asyncio; clients are those of `redis.asyncio`, in one event loop."""

    _library = redis.asyncio

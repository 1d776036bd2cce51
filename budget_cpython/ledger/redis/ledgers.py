"""The two ledgers in Redis: for threads, and for asyncio."""

from collections.abc import Callable, Sequence
from typing import Any

from budget_cpython.ledger.redis.clients import Blocking, Waiting
from budget_cpython.ledger.redis.connection import RedisConnection
from budget_cpython.ledger.redis.names import Names
from budget_cpython.ledger.remote import AsyncRemoteLedger, RemoteLedger
from budget_cpython.ledger.windows import Window, parse_window

TIMEOUT = 1.0


class RedisLedger(RemoteLedger):
    """Budgets by path in Redis 6.2 or later, or Valkey, for any number of threads and processes.

    `server` is a URL as the `redis` library takes it, or one of its clients: a `Redis`, one of a
    `Sentinel`, or a `RedisCluster`. All keys begin with `prefix`; two ledgers in one database need
    two of them. `timeout` is for each answer, in seconds; a client that is given keeps its own, and
    is its owner's to close.

    A server that may evict keys is refused by a `ValueError` at the first use, unless
    `check_eviction` is false: an evicted hold is one that was never taken.

    Everything else is as in `budget_core.Ledger`; `clock` is the server's unless given.
    """

    def __init__(
        self,
        server: Any,
        *,
        prefix: str = "microbudget",
        timeout: float = TIMEOUT,
        check_eviction: bool = True,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        client = Blocking(server, timeout)
        super().__init__(
            AsyncRemoteLedger(
                RedisConnection(client, Names(prefix), check_eviction),
                clock=clock,
                windows=windows,
                axes=axes,
                max_accounts=max_accounts,
                keep=keep,
            )
        )


class AsyncRedisLedger(AsyncRemoteLedger):
    """The same for asyncio; clients are those of `redis.asyncio`, in one event loop."""

    def __init__(
        self,
        server: Any,
        *,
        prefix: str = "microbudget",
        timeout: float = TIMEOUT,
        check_eviction: bool = True,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        client = Waiting(server, timeout)
        super().__init__(
            RedisConnection(client, Names(prefix), check_eviction),
            clock=clock,
            windows=windows,
            axes=axes,
            max_accounts=max_accounts,
            keep=keep,
        )

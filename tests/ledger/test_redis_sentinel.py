"""A primary that dies behind Sentinel: its replica takes over, with all that it was sent."""

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel
from redis.exceptions import RedisError

from budget_core.account import Limit
from budget_core.ledger_errors import LedgerUnavailableError
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from tests.ledger.patience import PATIENCE, until
from tests.ledger.redis_server import BINARY, RedisServer
from tests.ledger.test_redis_cluster import free_port

NAME = "budget"
Sentinel: Any = redis.sentinel.Sentinel
AsyncSentinel: Any = redis.asyncio.sentinel.Sentinel
LIMITS = [Limit("tokens", 100)]


class Watched:
    """A primary and its replica, and a Sentinel at `port` that watches them."""

    def __init__(self, primary: RedisServer, replica: RedisServer, port: int) -> None:
        self.primary = primary
        self.replica = replica
        self.port = port

    def copied(self) -> None:
        """Wait until the replica has all that the primary has."""
        with closing(self.primary.client()) as client:
            assert client.wait(1, PATIENCE * 1000) == 1


@contextmanager
def sentinel(folder: Path, port: int, primary: int) -> Iterator[None]:
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {NAME} 127.0.0.1 {primary} 1\n"
        f"sentinel down-after-milliseconds {NAME} 200\n"
        f"sentinel failover-timeout {NAME} 2000\n"
    )
    with (folder / "sentinel.log").open("wb") as log:
        process = subprocess.Popen([str(BINARY), str(settings), "--sentinel"], stdout=log)
    try:
        yield
    finally:
        process.kill()
        process.wait(PATIENCE)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    ports = [free_port() for _ in range(3)]
    folders = [tmp_path / name for name in ("primary", "replica")]
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
        primary = stack.enter_context(RedisServer(folders[0], port=ports[0]))
        replicaof = ("--replicaof", "127.0.0.1", str(ports[0]))
        replica = stack.enter_context(RedisServer(folders[1], *replicaof, port=ports[1]))
        found = Watched(primary, replica, ports[2])
        with closing(primary.client()) as client:
            client.set("written", 1)
        found.copied()
        stack.enter_context(sentinel(tmp_path, ports[2], ports[0]))
        with closing(redis.Redis(port=ports[2])) as client:
            until(lambda: client.sentinel_slaves(NAME), RedisError)
        yield found


def test_a_replica_that_sentinel_promotes_goes_on_with_the_ledger(watched: Watched) -> None:
    guard = Sentinel([("127.0.0.1", watched.port)])
    server = guard.master_for(NAME)
    with closing(guard.sentinels[0]), closing(server), closing(RedisLedger(server)) as ledger:
        ledger.set_limits("org", LIMITS)
        hold = ledger.reserve("org", {"tokens": 2}, key="k")
        watched.copied()
        watched.primary.kill()
        assert until(lambda: ledger.reserve("org", {"tokens": 5}, key="lost")).state == "held"
        assert ledger.reserve("org", {"tokens": 5}, key="lost").state == "held"
        assert ledger.commit(hold, {"tokens": 3}).state == "committed"
        (found,) = ledger.balance("org")
        assert (found.spent, found.held) == (3, 5)
        with closing(watched.replica.client()) as client:
            assert client.role()[0] == b"master"


async def until_async(ask: Callable[[], Awaitable[Any]]) -> Any:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await ask()
        except LedgerUnavailableError:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)


def test_asyncio_follows_a_promotion_too(watched: Watched) -> None:
    async def play() -> None:
        guard = AsyncSentinel([("127.0.0.1", watched.port)])
        server = guard.master_for(NAME)
        ledger = AsyncRedisLedger(server)
        await ledger.set_limits("org", LIMITS)
        hold = await ledger.reserve("org", {"tokens": 2}, key="k")
        watched.copied()
        watched.primary.kill()
        await until_async(lambda: ledger.reserve("org", {"tokens": 5}, key="lost"))
        await ledger.commit(hold, {"tokens": 3})
        (found,) = await ledger.balance("org")
        assert (found.spent, found.held) == (3, 5)
        await ledger.close()
        await server.aclose()
        await guard.sentinels[0].aclose()

    asyncio.run(play())

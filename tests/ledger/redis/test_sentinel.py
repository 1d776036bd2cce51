"""A primary that dies behind Sentinel: its replica takes over, with all that it was sent."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel
from redis.exceptions import RedisError

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from tests.ledger.engines import InLoop
from tests.ledger.patience import PATIENCE, until
from tests.ledger.redis.server import BINARY, PortTakenError, RedisServer, on_free_port

pytestmark = pytest.mark.slow

NAME = "budget"
NEVER = 3_600_000  # milliseconds
FAILOVER = 4 * PATIENCE  # a Sentinel that finds it has stood still does nothing for half a minute
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
            client.set("written", 1)  # of what others wrote later the client would know nothing
            until(lambda: client.wait(1, 1000))

    def kill(self) -> None:
        """Kill the primary; until then Sentinel takes no server for dead, however slow it is."""
        self.primary.kill()
        with closing(sentinel_client(self.port)) as client:
            client.sentinel_set(NAME, "down-after-milliseconds", 200)


class SentinelServer:
    """A Sentinel at `port`; raises `PortTakenError`."""

    def __init__(self, folder: Path, port: int, primary: int) -> None:
        self.port = port
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary} 1\n"
            f"sentinel down-after-milliseconds {NAME} {NEVER}\n"
            f"sentinel failover-timeout {NAME} 2000\n"
        )
        with (folder / "sentinel.log").open("wb") as log:
            self._process = subprocess.Popen([str(BINARY), str(settings), "--sentinel"], stdout=log)
        try:
            with closing(sentinel_client(port)) as client:
                until(lambda: self._knows_replica(client), RedisError)
        except BaseException:
            self.stop()
            raise

    def _knows_replica(self, client: Any) -> bool:
        if self._process.poll() is not None:
            raise PortTakenError("no Sentinel")
        return bool(client.sentinel_slaves(NAME))

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)


def sentinel_client(port: int) -> Any:
    return redis.Redis(port=port, socket_timeout=PATIENCE)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    folders = [tmp_path / name for name in ("primary", "replica")]
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
        primary = on_free_port(lambda port: RedisServer(folders[0], port=port))
        stack.enter_context(primary)
        replicaof = ("--replicaof", "127.0.0.1", str(primary.port))
        replica = on_free_port(lambda port: RedisServer(folders[1], *replicaof, port=port))
        stack.enter_context(replica)
        guard = on_free_port(lambda port: SentinelServer(tmp_path, port, primary.port))
        stack.callback(guard.stop)
        found = Watched(primary, replica, guard.port)
        found.copied()
        yield found


def blocking(port: int) -> tuple[RedisLedger, Callable[[], None]]:
    guard = Sentinel([("127.0.0.1", port)], socket_timeout=PATIENCE)
    server = guard.master_for(NAME)

    def close() -> None:
        server.close()
        guard.sentinels[0].close()

    return RedisLedger(server), close


def awaited(port: int) -> tuple[InLoop, Callable[[], None]]:
    guard = AsyncSentinel([("127.0.0.1", port)], socket_timeout=PATIENCE)
    server = guard.master_for(NAME)
    ledger = InLoop(AsyncRedisLedger(server))

    def close() -> None:
        ledger.run(server.aclose())
        ledger.run(guard.sentinels[0].aclose())

    return ledger, close


@pytest.mark.parametrize("connect", [blocking, awaited])
def test_a_replica_that_sentinel_promotes_goes_on_with_the_ledger(
    watched: Watched, connect: Callable[[int], tuple[Any, Callable[[], None]]]
) -> None:
    ledger, close = connect(watched.port)
    with closing(ledger):
        ledger.set_limits("org", LIMITS)
        hold = ledger.reserve("org", {"tokens": 2}, key="k")
        watched.copied()
        watched.kill()
        taken = until(lambda: ledger.reserve("org", {"tokens": 5}, key="lost"), patience=FAILOVER)
        assert taken.state == "held"
        assert ledger.reserve("org", {"tokens": 5}, key="lost").state == "held"
        assert ledger.commit(hold, {"tokens": 3}).state == "committed"
        (found,) = ledger.balance("org")
        assert (found.spent, found.held) == (3, 5)
        with closing(watched.replica.client()) as client:
            assert client.role()[0] == b"master"
        close()

"""In a cluster, all that an operation touches is in one slot."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from budget_cpython.ledger.redis.keys import Keys
from tests.ledger.patience import PATIENCE, until
from tests.ledger.redis.server import RedisServer, on_free_port
from tests_micro.ledger import cases as ledger_cases

pytestmark = pytest.mark.slow

ROLLING = "rolling 86400/24"  # which counts the same before and after midnight


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    options = ("--cluster-enabled", "yes")
    with on_free_port(lambda port: RedisServer(folder, *options, port=port)) as node:
        with closing(node.client()) as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            until(lambda: client.cluster("info")["cluster_state"] == "ok")
        yield node


@pytest.fixture
def client(cluster: RedisServer) -> Iterator[Any]:
    with closing(
        redis.RedisCluster(host="127.0.0.1", port=cluster.port, socket_timeout=PATIENCE)
    ) as found:
        found.flushall()
        yield found


def test_the_shared_vectors_hold_in_a_cluster(client: Any) -> None:
    for number, case in enumerate(ledger_cases.cases()):

        def make(clock: Any, number: int = number, **options: Any) -> RedisLedger:
            options.pop("max_holds", None)
            return RedisLedger(client, prefix=f"c{number}", clock=clock, **options)

        ledger_cases.run(case, make)


def test_asyncio_uses_a_cluster(cluster: RedisServer, client: Any) -> None:
    async def play() -> None:
        nodes = redis.asyncio.RedisCluster(
            host="127.0.0.1", port=cluster.port, socket_timeout=PATIENCE
        )
        ledger = AsyncRedisLedger(nodes)
        await ledger.set_limits("org", [Limit("tokens", 5, ROLLING)])
        await ledger.set_limits("other", [Limit("tokens", 5, ROLLING)])
        await ledger.commit(await ledger.reserve("org/a", {"tokens": 3}))
        with pytest.raises(BudgetExceededError):
            await ledger.reserve("org/a", {"tokens": 3})
        assert await ledger.accounts() == ["org", "other"]
        assert await ledger.expire() == 0
        await ledger.close()
        await nodes.aclose()

    asyncio.run(play())


def test_operators_read_from_a_cluster(cluster: RedisServer, client: Any) -> None:
    event = LedgerEvent("a", "org", {}, "once")
    row = HourOfUsage(7200, "org", "m", "", {"tokens": 5})

    async def play() -> None:
        nodes = redis.asyncio.RedisCluster(
            host="127.0.0.1", port=cluster.port, socket_timeout=PATIENCE
        )
        awaited, blocking = AsyncRedisLedger(nodes), RedisLedger(client)
        for number in range(4):
            await awaited.set_limits(f"org{number}", [Limit("tokens", 5, ROLLING)])
            await awaited.reserve(f"org{number}", {"tokens": number})
        assert [one.held for one in await awaited.balances()] == [0, 1, 2, 3]
        assert blocking.balances() != []
        assert [one.path for one in await awaited.open_holds()] == [
            one.path for one in blocking.open_holds()
        ]
        assert len(blocking.open_holds("org3")) == 1
        (first,) = await awaited.note([event])
        assert blocking.note([event, event._replace(name="")]) == [0, first + 1]
        await awaited.add_usage([row])
        blocking.add_usage([row])
        noted = await awaited.events(kinds=["a"])
        assert [one.number for one in noted] == [first, first + 1]
        assert await awaited.usage() == [row._replace(amounts={"tokens": 10})]
        await nodes.aclose()

    asyncio.run(play())


def test_flushed_scripts_are_loaded_again(client: Any) -> None:
    ledger = RedisLedger(client)
    ledger.set_limits("org", [Limit("tokens", 5, ROLLING)])
    client.script_flush()
    assert ledger.reserve("org", {"tokens": 1}).state == "held"


def test_a_cluster_without_all_its_slots_is_unavailable(cluster: RedisServer, client: Any) -> None:
    ledger = RedisLedger(client)
    ledger.set_limits("org", [Limit("tokens", 5, ROLLING)])
    slot = key_slot(b"org")
    with closing(cluster.client()) as node:
        node.execute_command("CLUSTER", "DELSLOTS", slot)
        try:
            with pytest.raises(LedgerUnavailableError):
                ledger.reserve("org", {"tokens": 1}, key="k")
        finally:
            node.execute_command("CLUSTER", "ADDSLOTS", slot)
        until(lambda: node.cluster("info")["cluster_state"] == "ok")
    assert ledger.reserve("org", {"tokens": 1}, key="k").state == "held"
    assert ledger.balance("org")[0].held == 1


def test_the_keys_of_a_path_are_in_the_slot_of_its_root() -> None:
    ours = Keys("prefix")
    for path in ("org", "org/team/agent"):
        keys = [*ours.of_path(path), ours.hold(path, "k{}"), ours.hold(path, "#1")]
        assert {key_slot(key) for key in keys} == {key_slot(b"org")}
        assert key_slot(ours.account(path)) == key_slot(b"org")
    lists = [ours.roots, ours.hours, ours.usage(7200), ours.reply("#1"), *ours.events]
    assert {key_slot(key) for key in lists} == {key_slot(ours.accounts)}

"""In a cluster, all that an operation touches is in one slot."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.ledger.opening import open_async_ledger, open_ledger
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from budget_cpython.ledger.redis.keys import Keys
from budget_cpython.ops.doctor import examine
from tests.ledger.engines import in_loop
from tests.ledger.patience import PATIENCE, until
from tests.ledger.redis.server import RedisServer, on_free_port
from tests_micro.ledger import cases as ledger_cases
from tests_micro.support import FakeClock

pytestmark = pytest.mark.slow

NOON = 20_000 * 86_400 + 43_200
ROLLING = "rolling 86400/24"  # which counts the same before and after midnight


class Nodes:
    """Three nodes that know each other, of which any may be killed: the others continue."""

    def __init__(self, folder: Path) -> None:
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
        options += ["--cluster-require-full-coverage", "no"]
        self.nodes: list[RedisServer] = []
        for number in range(3):
            own = folder / str(number)
            own.mkdir()
            self.nodes.append(
                on_free_port(lambda port, own=own: RedisServer(own, *options, port=port))  # type: ignore[misc]
            )
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{one.port}" for one in self.nodes[:2])
        for number, node in enumerate(self.nodes):
            with closing(node.client()) as client:
                slots = range(16_384 * number // 3, 16_384 * (number + 1) // 3)
                client.execute_command("CLUSTER", "ADDSLOTS", *slots)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        self.wait()

    def wait(self) -> None:
        """Wait until each knows all others, and serves."""
        for node in self.nodes:
            with closing(node.client()) as client:
                until(lambda: _is_whole(client.cluster("info")))

    def of(self, root: str) -> RedisServer:
        """Return the node that has a root's accounts."""
        return self.nodes[3 * key_slot(root.encode()) // 16_384]

    def close(self) -> None:
        for node in self.nodes:
            node.__exit__(None, None, None)


def _is_whole(info: dict[str, str]) -> bool:
    return info["cluster_state"] == "ok" and info["cluster_slots_ok"] == "16384"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with closing(Nodes(tmp_path_factory.mktemp("nodes"))) as found:
        yield found


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


ROOTS = [f"org{number}" for number in range(9)]


@contextmanager
def one_down(nodes: Nodes) -> Iterator[RedisServer]:
    """Have a node out of reach that has some roots, and not the list of accounts."""
    down = next(one for one in map(nodes.of, ROOTS) if one is not nodes.of("#"))
    with killed(down, nodes):
        yield down


@contextmanager
def killed(down: RedisServer, nodes: Nodes) -> Iterator[None]:
    down.kill()
    try:
        yield
    finally:
        down.start()
        nodes.wait()


def check(ledger: Any, down: RedisServer, nodes: Nodes) -> None:
    """Reserve below each root: those of the node that is down are refused, and no others."""
    for root in ROOTS:
        if nodes.of(root) is not down:
            assert ledger.reserve(f"{root}/a", {"tokens": 1}).state == "held"
            continue
        with pytest.raises(LedgerUnavailableError, match=str(down.port)):
            ledger.reserve(f"{root}/a", {"tokens": 1})


@pytest.mark.parametrize("opened", [open_ledger, in_loop(open_async_ledger)], ids=["sync", "async"])
def test_accounts_of_a_node_that_is_killed_are_refused_and_the_others_continue(
    nodes: Nodes, opened: Any, request: pytest.FixtureRequest
) -> None:
    options = {"timeout": PATIENCE, "prefix": request.node.callspec.id}
    with closing(opened(nodes.url, **options)) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("tokens", 100)])
        assert ledger.accounts() == ROOTS
        with one_down(nodes) as down:
            check(ledger, down, nodes)
            with closing(opened(nodes.url, **options)) as begun_since:
                check(begun_since, down, nodes)
                for ask in (begun_since.balances, begun_since.open_holds, begun_since.expire):
                    with pytest.raises(LedgerUnavailableError, match=str(down.port)):
                        ask()
        kept = [root for root in ROOTS if nodes.of(root) is not down]
        assert [(one.account, one.held) for one in ledger.balances()] == [(one, 2) for one in kept]


def test_holds_of_the_other_nodes_expire_while_one_is_down(nodes: Nodes) -> None:
    now = FakeClock(NOON)
    opened = RedisLedger(nodes.url, timeout=PATIENCE, prefix="expiring", clock=now)
    with closing(opened) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("tokens", 9)])
            ledger.reserve(root, {"tokens": 9}, ttl=10)
        with one_down(nodes) as down:
            now.now += 11
            with pytest.raises(LedgerUnavailableError):
                ledger.expire()
            for root in ROOTS:
                if nodes.of(root) is not down:
                    with closing(nodes.of(root).client()) as client:
                        assert not client.exists(Keys("expiring").of_path(root)[0])


@pytest.mark.parametrize("opened", [open_ledger, in_loop(open_async_ledger)], ids=["sync", "async"])
def test_calls_continue_without_the_node_that_lists_the_accounts(
    nodes: Nodes, opened: Any, request: pytest.FixtureRequest
) -> None:
    options = {"timeout": PATIENCE, "prefix": request.node.callspec.id}
    with closing(opened(nodes.url, **options)) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("tokens", 100)])
    with killed(nodes.of("#"), nodes), closing(opened(nodes.url, **options)) as ledger:
        check(ledger, nodes.of("#"), nodes)
        with pytest.raises(LedgerUnavailableError):
            ledger.accounts()


def test_a_node_that_may_evict_is_refused_and_no_other(nodes: Nodes) -> None:
    evicting = nodes.of(ROOTS[0])
    with (
        closing(evicting.client()) as client,
        closing(RedisLedger(nodes.url, timeout=PATIENCE)) as ledger,
    ):
        client.config_set("maxmemory-policy", "allkeys-lru")
        for root in ROOTS:
            if nodes.of(root) is evicting:
                with pytest.raises(ValueError, match="may evict"):
                    ledger.limits(root)
            else:
                ledger.limits(root)
        client.config_set("maxmemory-policy", "noeviction")
        ledger.limits(ROOTS[0])


def test_a_cluster_is_examined_node_by_node(nodes: Nodes) -> None:
    (_, clock, durability) = [
        finding for _, finding in list(examine(nodes.url, int(time.time()), {}))[:3]
    ]
    assert clock.found.endswith("at 3 nodes")
    assert any(f"{one.port}: appendonly is no" in durability.found for one in nodes.nodes)


def test_the_keys_of_a_path_are_in_the_slot_of_its_root() -> None:
    ours = Keys("prefix")
    for path in ("org", "org/team/agent"):
        keys = [*ours.of_path(path), ours.hold(path, "k{}"), ours.hold(path, "#1")]
        assert {key_slot(key) for key in keys} == {key_slot(b"org")}
        assert key_slot(ours.account(path)) == key_slot(b"org")
    lists = [ours.roots, ours.hours, ours.usage(7200), ours.reply("#1"), *ours.events]
    assert {key_slot(key) for key in lists} == {key_slot(ours.accounts)}

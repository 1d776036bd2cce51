"""Whatever happens to a Redis server: nothing acknowledged is lost, and nothing counts twice."""

import asyncio
import itertools
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import remote
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from tests.ledger.engines import in_loop
from tests.ledger.patience import NO_HURRY, PATIENCE, until
from tests.ledger.redis.server import RedisServer, empty_server, hurry

LIMITS = [Limit("tokens", 1_000_000)]
KINDS = pytest.mark.parametrize("kind", [RedisLedger, in_loop(AsyncRedisLedger)])


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own, which keeps what it has acknowledged."""
    with RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as started:
        yield started


@pytest.fixture
def shared() -> RedisServer:
    return empty_server()


def figures(ledger: RedisLedger) -> tuple[int, int]:
    (row,) = ledger.balance("org")
    return row.spent, row.held


@KINDS
def test_a_server_that_is_down_is_said_to_be_and_nothing_is_applied(
    tmp_path: Path, kind: Any
) -> None:
    with closing(kind(f"unix://{tmp_path}/absent")) as ledger:
        for ask in asking(ledger, Hold("org", "k", {"tokens": 1})):
            with pytest.raises(LedgerUnavailableError) as down:
                ask()
            assert down.value.applied is False or "did not answer" in str(down.value)


def test_a_first_use_of_any_client_that_cannot_connect_has_applied_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "none.sock")
    with closing(RedisLedger(redis.Redis(unix_socket_path=place))) as ledger:
        with pytest.raises(LedgerUnavailableError, match="cannot be reached") as raised:
            ledger.reserve("org", {"tokens": 1})
        assert raised.value.applied is False

    async def check() -> None:
        asked = AsyncRedisLedger(redis.asyncio.Redis(unix_socket_path=place))
        with pytest.raises(LedgerUnavailableError) as raised:
            await asked.charge("org", {"tokens": 1})
        assert raised.value.applied is False

    asyncio.run(check())


def asking(ledger: RedisLedger, hold: Hold) -> "list[Callable[[], Any]]":
    return [
        lambda: ledger.set_limits("org", LIMITS),
        lambda: ledger.limits("org"),
        lambda: ledger.accounts(),
        lambda: ledger.reserve("org", {"tokens": 1}),
        lambda: ledger.charge("org", {"tokens": 1}),
        lambda: ledger.commit(hold),
        lambda: ledger.release(hold),
        lambda: ledger.extend(hold),
        lambda: ledger.hold("org", "k"),
        lambda: ledger.expire(),
        lambda: ledger.balance("org"),
        lambda: ledger.history("org"),
    ]


def kill_when(own: RedisServer, far: threading.Event) -> None:
    if far.wait(NO_HURRY):
        own.kill()


def test_a_killed_server_has_all_it_acknowledged_and_nothing_twice(own: RedisServer) -> None:
    with closing(RedisLedger(own.url, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", LIMITS)
        told = 0
        for turn in range(4):
            far = threading.Event()
            killer = threading.Thread(target=kill_when, args=(own, far))
            killer.start()
            for number in itertools.count():
                asked = {"tokens": 1}
                if number == 7 * turn + 3:
                    far.set()
                try:
                    hold = ledger.reserve("org", asked, key=f"{turn}.{number}")
                    ledger.commit(hold)
                except LedgerUnavailableError:
                    break
                told += 1
            assert far.is_set()
            killer.join()
            own.start()
            ledger.commit(ledger.reserve("org", asked, key=f"{turn}.{number}"))
            told += 1
            assert figures(ledger) == (told, 0)


def test_connections_that_broke_together_cause_no_error(own: RedisServer) -> None:
    with closing(RedisLedger(own.url, timeout=NO_HURRY)) as ledger:
        ledger.set_limits("org", LIMITS)
        ledger.charge("org", {})
        with closing(own.client()) as client:
            client.client_pause(PATIENCE * 2000, all=False)  # what may write has to wait
            threads = [
                threading.Thread(target=ledger.charge, args=("org", {"tokens": 1}))
                for _ in range(4)
            ]
            for thread in threads:
                thread.start()
            until(lambda: client.info("clients")["connected_clients"] >= 5)
            client.client_unpause()
            for thread in threads:
                thread.join()
        own.kill()
        own.start()
        ledger.charge("org", {"tokens": 1})
        assert figures(ledger) == (5, 0)


def test_asyncio_goes_on_with_a_server_that_was_restarted(own: RedisServer) -> None:
    async def play() -> None:
        ledger = AsyncRedisLedger(own.url, timeout=PATIENCE)
        await ledger.set_limits("org", LIMITS)
        await asyncio.gather(*[ledger.charge("org", {"tokens": 1}) for _ in range(20)])
        own.kill()
        with pytest.raises(LedgerUnavailableError):
            await ledger.charge("org", {"tokens": 1}, key="k")
        own.start()
        for number in range(20):
            await ledger.charge("org", {"tokens": 1}, key=f"k{number}")
        (row,) = await ledger.balance("org")
        assert row.spent == 40
        await ledger.close()

    asyncio.run(play())


def test_a_server_killed_under_many_tasks_has_all_it_acknowledged_and_nothing_twice(
    own: RedisServer,
) -> None:
    async def charge(ledger: AsyncRedisLedger, key: str) -> bool:
        try:
            await ledger.charge("org", {"tokens": 1}, key)
        except LedgerUnavailableError:
            return False
        return True

    async def play(turn: int) -> None:
        ledger = AsyncRedisLedger(own.url, timeout=PATIENCE)
        await ledger.set_limits("org", LIMITS)
        far, keys = threading.Event(), [f"{turn}.{number}" for number in range(600)]
        killer = threading.Thread(target=kill_when, args=(own, far))
        killer.start()
        asking = [asyncio.create_task(charge(ledger, key)) for key in keys]
        await asking[turn * 150]
        far.set()
        told = await asyncio.gather(*asking)
        killer.join()
        own.start()
        (row,) = await ledger.balance("org")
        assert 600 * turn + sum(told) <= row.spent <= 600 * (turn + 1)
        assert all(await asyncio.gather(*[charge(ledger, key) for key in keys]))
        (row,) = await ledger.balance("org")
        assert row.spent == 600 * (turn + 1)
        await ledger.close()

    for turn in range(3):
        asyncio.run(play(turn))


def test_what_a_paused_server_was_asked_counts_once(own: RedisServer) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(own.client())) for _ in range(3)]
        ledgers = [RedisLedger(client) for client in clients]
        ledgers[0].set_limits("org", LIMITS)
        hold = ledgers[0].reserve("org", {"tokens": 3}, key="before")
        operations: list[Callable[[RedisLedger], Hold]] = [
            lambda ledger: ledger.reserve("org", {"tokens": 5}, key="k"),
            lambda ledger: ledger.commit(hold, {"tokens": 4}),
            lambda ledger: ledger.charge("org", {"tokens": 7}, key="c"),
        ]
        for ledger in ledgers:
            ledger.balance("org")  # each has a connection, or it could not even ask
        own.pause()
        for client, ledger, ask in zip(clients, ledgers, operations, strict=True):
            hurry(client, 0.1)
            with pytest.raises(LedgerUnavailableError) as paused:
                ask(ledger)
            assert paused.value.applied is None
            hurry(client, PATIENCE)
        own.go_on()
        for ledger, ask in zip(ledgers, operations, strict=True):
            ask(ledger)
        assert figures(ledgers[0]) == (11, 5)


@contextmanager
def cutting(path: Path, upstream: str, cut: threading.Event) -> Iterator[str]:
    """Pass bytes on to a server; with `cut` set, its next answer is the end of the connection."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    passing: list[threading.Thread] = []

    def serve() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            passing.append(threading.Thread(target=pass_on, args=(near,), daemon=True))
            passing[-1].start()

    def pass_on(near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(upstream)
            asked = False
            while True:
                for ready in select.select((near, far), (), ())[0]:
                    data = ready.recv(1 << 16)
                    asked = asked or b"EVALSHA" in data
                    if not data:
                        return
                    if asked and ready is far and cut.is_set():
                        cut.clear()
                        return
                    (far if ready is near else near).sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for one in (thread, *passing):
            one.join(PATIENCE)
            assert not one.is_alive()


def test_an_answer_cut_off_is_asked_for_again_and_counts_once(
    shared: RedisServer, tmp_path: Path
) -> None:
    cut = threading.Event()
    with (
        cutting(tmp_path / "s", shared.socket, cut) as url,
        closing(RedisLedger(url, timeout=PATIENCE)) as ledger,
    ):
        ledger.set_limits("org", LIMITS)
        ledger.commit(ledger.reserve("org", {}))
        ledger.charge("org", {})  # all scripts are loaded
        cut.set()
        hold = ledger.reserve("org", {"tokens": 5})
        assert not cut.is_set()
        assert figures(ledger) == (0, 5)
        cut.set()
        ledger.commit(hold, {"tokens": 4})
        assert not cut.is_set()
        cut.set()
        ledger.charge("org", {"tokens": 1})
        assert not cut.is_set()
        assert figures(ledger) == (5, 0)


def test_answers_to_many_tasks_that_are_cut_off_are_asked_for_again_and_count_once(
    shared: RedisServer, tmp_path: Path
) -> None:
    async def play(url: str) -> None:
        ledger = AsyncRedisLedger(url, timeout=PATIENCE)
        await ledger.set_limits("org", LIMITS)
        await ledger.charge("org", {})  # the script is loaded
        cut.set()
        await asyncio.gather(*[ledger.charge("org", {"tokens": 1}) for _ in range(50)])
        assert not cut.is_set()
        (row,) = await ledger.balance("org")
        assert row.spent == 50
        await ledger.close()

    cut = threading.Event()
    with cutting(tmp_path / "s", shared.socket, cut) as url:
        asyncio.run(play(url))


def test_what_was_noted_before_an_answer_was_cut_off_is_noted_once(
    shared: RedisServer, tmp_path: Path
) -> None:
    cut = threading.Event()
    row = HourOfUsage(7200, "org", "m", "", {"tokens": 5})
    with (
        cutting(tmp_path / "s", shared.socket, cut) as url,
        closing(RedisLedger(url, timeout=PATIENCE)) as ledger,
    ):
        first = LedgerEvent("a", "", {}, "first")
        assert ledger.note([first]) == [1]
        ledger.add_usage([row])
        cut.set()
        assert ledger.note([LedgerEvent("a", "", {}), first, LedgerEvent("a", "", {}, "b")]) == [
            2,
            0,
            3,
        ]
        assert not cut.is_set()
        cut.set()
        ledger.add_usage([row])
        assert not cut.is_set()
        assert [one.number for one in ledger.events()] == [1, 2, 3]
        assert ledger.usage() == [row._replace(amounts={"tokens": 10})]


def test_operators_read_from_a_replica_also_windows_that_are_over(own: RedisServer) -> None:
    now = 20_000 * 86_400
    row = HourOfUsage(now, "org", "m", "", {"tokens": 5})
    with (
        closing(RedisLedger(own.url, timeout=PATIENCE, clock=lambda: now)) as ledger,
        closing(own.client()) as primary,
    ):
        ledger.set_limits("org", [Limit("tokens", 9, "hour"), Limit("tokens", 9)])
        ledger.charge("org", {"tokens": 5})
        ledger.reserve("org", {"tokens": 1}, ttl=86_400)
        ledger.note([LedgerEvent("a", "", {})])
        ledger.add_usage([row])
        primary.replicaof("127.0.0.1", 1)
        now += 3600
        assert [(one.window, one.spent) for one in ledger.balances()] == [("hour", 0), ("run", 5)]
        assert [one.amounts for one in ledger.open_holds()] == [{"tokens": 1}]
        assert [one.kind for one in ledger.events()] == ["limits", "a"]
        assert ledger.usage() == [row]
        with pytest.raises(LedgerUnavailableError, match="read only"):
            ledger.note([LedgerEvent("a", "", {})])


def test_scripts_that_were_flushed_are_loaded_again(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SWEEP_EVERY", 10**9)  # which would run a script of its own
    with (
        closing(RedisLedger(shared.url, timeout=PATIENCE)) as ledger,
        closing(shared.client()) as client,
    ):
        ledger.set_limits("org", LIMITS)
        for number in range(3):
            client.script_flush()
            hold = ledger.reserve("org", {"tokens": 1}, key=f"{number}")
            client.script_flush()
            ledger.commit(hold)
        assert figures(ledger) == (3, 0)
        ledger.reserve("org", {"tokens": 1})
        client.config_resetstat()
        ledger.reserve("org", {"tokens": 1})
        assert not [name for name in client.info("commandstats") if "script" in name]


def test_scripts_that_were_flushed_under_many_tasks_run_once_each(shared: RedisServer) -> None:
    async def play() -> None:
        ledger = AsyncRedisLedger(shared.url, timeout=PATIENCE)
        await ledger.set_limits("org", [Limit("tokens", 40)])
        for turn in range(1, 3):
            client.script_flush()
            asking = [ledger.reserve("org", {"tokens": turn}) for _ in range(20)]
            found = await asyncio.gather(*asking, return_exceptions=True)
            refused = [one for one in found if isinstance(one, BudgetExceededError)]
            assert len(refused) == (0 if turn == 1 else 10)
            (row,) = await ledger.balance("org")
            assert row.held == 20 * turn
        await ledger.close()

    with closing(shared.client()) as client:
        asyncio.run(play())


def test_a_full_server_takes_no_holds_and_settles_those_it_has(own: RedisServer) -> None:
    with closing(RedisLedger(own.url, timeout=PATIENCE)) as ledger, closing(own.client()) as client:
        ledger.set_limits("org", LIMITS)
        ledger.set_limits("gone", LIMITS)
        holds = [ledger.reserve("org", {"tokens": 2}) for _ in range(4)]
        client.config_set("maxmemory", 1)
        for ask in (
            lambda: ledger.reserve("org", {"tokens": 5}, key="k"),
            lambda: ledger.charge("org", {"tokens": 5}, key="k"),
            lambda: ledger.set_limits("other", LIMITS),
        ):
            with pytest.raises(LedgerFullError):
                ask()
        assert ledger.commit(holds[0], {"tokens": 3}).state == "committed"
        assert ledger.release(holds[1]).state == "released"
        assert ledger.extend(holds[2]).state == "held"
        ledger.set_limits("gone", [])
        assert ledger.accounts() == ["org"]
        assert figures(ledger) == (3, 4)
        client.config_set("maxmemory", 0)
        assert ledger.reserve("org", {"tokens": 5}, key="k").state == "held"
        assert figures(ledger) == (3, 9)
        assert client.zcard("microbudget:{org}:live") == 3


def test_a_replica_changes_nothing_until_it_is_promoted(own: RedisServer) -> None:
    with closing(RedisLedger(own.url, timeout=PATIENCE)) as ledger, closing(own.client()) as client:
        ledger.set_limits("org", LIMITS)
        hold = ledger.reserve("org", {"tokens": 2}, key="k")
        client.replicaof("127.0.0.1", 1)
        client.config_set("replica-serve-stale-data", "yes")
        asks: list[Callable[[], Any]] = [
            lambda: ledger.reserve("org", {"tokens": 5}),
            lambda: ledger.commit(hold),
        ]
        for ask in asks:
            with pytest.raises(LedgerUnavailableError, match="read only") as refused:
                ask()
            assert refused.value.applied is False
        assert figures(ledger) == (0, 2)  # it may be read
        client.config_set("replica-serve-stale-data", "no")
        with pytest.raises(LedgerUnavailableError, match="MASTER"):
            ledger.balance("org")
        client.replicaof("NO", "ONE")
        ledger.commit(hold)
        assert figures(ledger) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "client"),
    [(RedisLedger, redis.Redis), (in_loop(AsyncRedisLedger), redis.asyncio.Redis)],
)
def test_a_server_that_takes_over_an_address_is_reached(
    own: RedisServer, shared: RedisServer, tmp_path: Path, kind: Any, client: Any
) -> None:
    address = tmp_path / "s"
    address.symlink_to(own.socket)
    given = client(unix_socket_path=str(address), socket_timeout=PATIENCE)
    with (
        closing(kind(f"unix://{address}", timeout=PATIENCE)) as ledger,
        closing(kind(given)) as other,
        closing(RedisLedger(shared.url, timeout=PATIENCE)) as successor,
        closing(own.client()) as primary,
    ):
        ledger.set_limits("org", LIMITS)
        successor.set_limits("org", LIMITS)
        other.balance("org")
        primary.replicaof("127.0.0.1", 1)
        address.unlink()
        address.symlink_to(shared.socket)
        with pytest.raises(LedgerUnavailableError, match="read only"):
            ledger.reserve("org", {"tokens": 5})
        ledger.reserve("org", {"tokens": 5})
        other.reserve("org", {"tokens": 5})  # sent once more at once: its client may have repeated
        assert figures(successor) == (0, 10)
        if isinstance(given, redis.Redis):
            given.close()
        else:
            other.run(given.aclose())


def test_a_client_that_tries_again_by_itself_changes_nothing_twice(
    shared: RedisServer, tmp_path: Path
) -> None:
    cut = threading.Event()
    with cutting(tmp_path / "s", shared.socket, cut) as url:
        client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 3), socket_timeout=PATIENCE)
        with closing(client), closing(RedisLedger(client)) as ledger:
            ledger.set_limits("org", LIMITS)
            ledger.reserve("org", {})
            cut.set()
            ledger.reserve("org", {"tokens": 5})
            assert not cut.is_set()
            assert figures(ledger) == (0, 5)

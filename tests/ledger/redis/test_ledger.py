"""The ledger in Redis answers as the reference does, from threads and from asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
import redis

from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import remote
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import RedisServer, empty_server

NOON = 20_000 * 86_400 + 43_200


@pytest.fixture
def empty() -> RedisServer:
    return empty_server()


@pytest.fixture
def ledger(empty: RedisServer) -> Iterator[RedisLedger]:
    with closing(RedisLedger(empty.url, timeout=PATIENCE)) as opened:
        yield opened


def test_a_client_of_any_make_is_read(empty: RedisServer) -> None:
    made: list[dict[str, Any]] = [{"decode_responses": True}, {"protocol": 2}, {"protocol": 3}]
    for number, options in enumerate(made):
        with (
            closing(empty.client(**options)) as client,
            closing(RedisLedger(client, prefix=f"of{number}")) as ledger,
        ):
            ledger.set_limits("org", [Limit("tokens", 10, "rolling 86400/24")])
            hold = ledger.reserve("org", {"tokens": 4}, key="k")
            assert ledger.reserve("org", {"tokens": 4}, key="k").amounts == {"tokens": 4}
            ledger.commit(hold, {"tokens": 7})
            (row,) = ledger.balance("org")
            assert (row.account, row.axis, row.spent, row.held) == ("org", "tokens", 7, 0)
            assert ledger.accounts() == ["org"]


def test_the_largest_numbers_are_exact(ledger: RedisLedger) -> None:
    ledger.set_limits("org", [Limit("tokens", MOST)])
    ledger.charge("org", {"tokens": MOST - 2})
    with pytest.raises(BudgetExceededError) as refused:
        ledger.reserve("org", {"tokens": 3})
    assert (refused.value.left, refused.value.spent) == (2, MOST - 2)
    hold = ledger.reserve("org", {"tokens": 2})
    assert ledger.balance("org")[0].held == 2
    assert ledger.commit(hold, {"tokens": 1}).actual == {"tokens": 1}
    assert ledger.balance("org")[0].spent == MOST - 1


def test_an_account_too_many_is_refused_whatever_its_root(empty: RedisServer) -> None:
    with closing(RedisLedger(empty.url, timeout=PATIENCE, max_accounts=2)) as ledger:
        ledger.set_limits("a", [Limit("tokens", 1)])
        ledger.set_limits("b", [Limit("tokens", 1)])
        with pytest.raises(LedgerFullError):
            ledger.set_limits("c", [Limit("tokens", 1)])
        ledger.set_limits("a", [])
        ledger.set_limits("c", [Limit("tokens", 1)])
        assert ledger.accounts() == ["b", "c"]


def test_ledgers_of_two_prefixes_do_not_meet(empty: RedisServer) -> None:
    with (
        closing(RedisLedger(empty.url, timeout=PATIENCE, prefix="one")) as one,
        closing(RedisLedger(empty.url, timeout=PATIENCE, prefix="two")) as two,
    ):
        one.set_limits("org", [Limit("tokens", 1)])
        assert two.accounts() == []
        assert two.limits("org") == []


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", "ä", None])
def test_a_prefix_that_would_break_keys_is_refused(prefix: Any, empty: RedisServer) -> None:
    with pytest.raises(ValueError, match="prefix"):
        RedisLedger(empty.url, timeout=PATIENCE, prefix=prefix)


def test_what_is_settled_is_forgotten_and_what_is_live_is_not(empty: RedisServer) -> None:
    with (
        closing(RedisLedger(empty.url, timeout=PATIENCE, keep=5000)) as ledger,
        closing(empty.client()) as client,
    ):
        ledger.set_limits("org", [Limit("tokens", 10)])
        live = ledger.reserve("org", {"tokens": 1}, key="live")
        ledger.commit(ledger.reserve("org", {"tokens": 1}, key="settled"))
        ledger.charge("org", {"tokens": 1}, key="charged")
        left = [
            client.pttl(f"microbudget:{{org}}:hold:{key}") for key in ("live", "settled", "charged")
        ]
        assert left[0] == -1
        assert all(0 < one <= 5_000_000 for one in left[1:])
        assert client.zcard("microbudget:{org}:live") == 1
        ledger.release(live)
        assert client.zcard("microbudget:{org}:live") == 0


def test_a_root_without_accounts_and_holds_leaves_only_a_number(empty: RedisServer) -> None:
    now = [NOON]
    with (
        closing(RedisLedger(empty.url, timeout=PATIENCE, clock=lambda: now[0])) as ledger,
        closing(empty.client()) as client,
    ):
        ledger.set_limits("org", [Limit("tokens", 10)])
        ledger.reserve("org", {"tokens": 1}, key="k")
        ledger.set_limits("org", [])
        assert ledger.expire() == 0
        assert client.hgetall("microbudget:{#}:roots") == {b"org": b"0"}
        now[0] += 301
        assert ledger.expire() == 1
        kept = {b"microbudget:{org}:cells", b"microbudget:{org}:hold:k"}
        noted = {b"microbudget:{#}:events", b"microbudget:{#}:last-event"}
        found = set(client.keys())
        assert {one for one in found if b":reply:" not in one} == kept | noted


def test_many_holds_that_are_over_expire_before_a_balance(empty: RedisServer) -> None:
    now = [NOON]
    with closing(RedisLedger(empty.url, timeout=PATIENCE, clock=lambda: now[0])) as ledger:
        ledger.set_limits("org", [Limit("tokens", 1000)])
        for number in range(250):  # more than are expired at a time
            ledger.reserve(f"org/{number}" if number % 2 else "org", {"tokens": 1})
        now[0] += 301
        with closing(empty.client()) as client:
            client.config_resetstat()
            (row,) = ledger.balance("org")
            calls = client.info("commandstats")["cmdstat_evalsha"]["calls"]
            assert calls < 25  # those that load a script count twice
        assert (row.spent, row.held) == (250, 0)


def test_a_reservation_costs_the_server_the_same_beside_many_holds(empty: RedisServer) -> None:
    with (
        closing(RedisLedger(empty.url, timeout=PATIENCE, clock=lambda: NOON)) as ledger,
        closing(empty.client()) as client,
    ):
        ledger.set_limits("org/a", [Limit("tokens", None, "day")])

        def commands() -> int:
            before = sum(one["calls"] for one in client.info("commandstats").values())
            ledger.reserve("org/a", {"tokens": 1})
            return int(sum(one["calls"] for one in client.info("commandstats").values()) - before)

        ledger.reserve("org/a", {"tokens": 1})
        few = commands()
        size = client.strlen("microbudget:{org}:hold:x")
        for number in range(300):
            ledger.reserve("org/a", {"tokens": 1})
            ledger.set_limits(f"org/{number}", [Limit("tokens", 5)])
        assert commands() == few
        assert client.hlen("microbudget:{org}:account:org/a") == 1
        assert size == 0


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[AsyncRedisLedger]:
    ledger = AsyncRedisLedger(url, timeout=PATIENCE)
    try:
        yield ledger
    finally:
        await ledger.close()


def test_what_tasks_ask_while_others_wait_goes_together(empty: RedisServer) -> None:
    async def play() -> None:
        async with opened(empty.url + "?client_name=tasks") as ledger:
            await ledger.set_limits("org", [Limit("calls", 1000)])
            with closing(empty.client()) as client:
                before = client.info("stats")["total_reads_processed"]
                found = await asyncio.gather(
                    *[ledger.reserve("org", {"calls": 1}) for _ in range(1010)],
                    return_exceptions=True,
                )
                assert client.info("stats")["total_reads_processed"] < before + 500
                assert [one["name"] for one in client.client_list()].count("tasks") <= 2
        kinds = [type(one).__name__ for one in found]
        assert kinds == ["Hold"] * 1000 + ["BudgetExceededError"] * 10

    asyncio.run(play())


class Watched(redis.Redis):
    """A client that does something before and after each script on the list of accounts."""

    step: Callable[[], None] = staticmethod(lambda: None)

    def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any:
        of_list = "{#}" in str(keys_and_args[0])
        if of_list:
            self.step()
        answer = super().evalsha(sha, numkeys, *keys_and_args)
        if of_list:
            self.step()
        return answer


@pytest.fixture
def watched(empty: RedisServer) -> Iterator[Watched]:
    with closing(Watched(unix_socket_path=empty.socket, socket_timeout=PATIENCE)) as client:
        yield client


def test_an_account_made_again_while_it_is_removed_is_listed(
    empty: RedisServer, watched: Watched
) -> None:
    one = RedisLedger(watched)
    with closing(RedisLedger(empty.url, timeout=PATIENCE)) as other:
        one.set_limits("org", [Limit("calls", 1)])
        left = [1]

        def step() -> None:
            left[0] -= 1
            if not left[0]:
                other.set_limits("org", [Limit("calls", 2)])

        watched.step = step
        one.set_limits("org", [])
        assert left[0] < 0
        assert one.limits("org") == [Limit("calls", 2)]
        assert one.accounts() == ["org"]


@pytest.mark.parametrize("before", [[], [Limit("calls", 2)]])
@pytest.mark.parametrize("steps", range(4))
def test_an_account_removed_while_it_is_made_is_listed_if_it_is_there(
    empty: RedisServer, watched: Watched, before: list[Limit], steps: int
) -> None:
    one = RedisLedger(watched)
    with closing(RedisLedger(empty.url, timeout=PATIENCE)) as other:
        one.set_limits("other", [Limit("calls", 1)])
        other.set_limits("org", before)
        left = [steps]

        def step() -> None:
            left[0] -= 1
            if left[0] == -1:
                other.set_limits("org", [])

        watched.step = step
        one.set_limits("org", [Limit("calls", 1)])
        assert left[0] < 0 or before  # an account that had limits is listed once
        assert one.accounts() == (["org", "other"] if one.limits("org") else ["other"])


def test_an_account_that_cannot_be_made_takes_no_place(
    empty: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(RedisLedger(empty.url, timeout=PATIENCE, max_accounts=1)) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(remote, "WALL", lambda: NOON)  # as if the server's clock were wrong
            with pytest.raises(LedgerUnavailableError, match="the clock that is wrong"):
                ledger.set_limits("org", [Limit("calls", 1, "day")])
        assert ledger.accounts() == []
        ledger.set_limits("other", [Limit("calls", 1, "day")])
        assert ledger.accounts() == ["other"]


@pytest.mark.parametrize("most", [1, 100])
def test_a_client_that_was_given_stays_its_owners(empty: RedisServer, most: int) -> None:
    with closing(empty.client(max_connections=most)) as client:
        with closing(RedisLedger(client)) as ledger:
            ledger.set_limits("org", [Limit("tokens", 10)])
            ledger.reserve("org", {"tokens": 1})
            assert client.ping()
            assert ledger.accounts() == ["org"]
            before = client.info("stats")["total_connections_received"]
        for _ in range(3):
            RedisLedger(client).reserve("org", {"tokens": 1})  # none of them is closed
        assert client.info("stats")["total_connections_received"] == before

"""Requests of an HTTP ledger go together, and each has its own answer and counts once."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.lease import AsyncLeasedLedger
from budget_cpython.serve.app import make_app
from budget_cpython.web.keys import KeyFile
from budget_cpython.web.server import running

MANY = 100


class Service:
    """A service in a thread, which notes the paths of requests, and may lose answers."""

    def __init__(self, keys: KeyFile | None = None) -> None:
        self.ledger = Ledger()
        self.ledger.set_limits("org", [Limit("calls", 1_000)])
        self.paths: list[str] = []
        self.answers_to_lose = 0
        self._app = make_app(self.ledger, keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.paths.append(scope["path"])
            if self.answers_to_lose:
                self.answers_to_lose -= 1
                send = self._lose
        await self._app(scope, receive, send)

    @staticmethod
    async def _lose(message: Message) -> None:
        if message["type"] == "http.response.start":
            raise ConnectionResetError

    @property
    def counted(self) -> tuple[int, int]:
        (found,) = self.ledger.balance("org")
        return found.spent, found.held


@contextmanager
def served(keys: KeyFile | None = None) -> Iterator[tuple[Service, str]]:
    service = Service(keys)
    with running(service, "127.0.0.1:0") as url:
        yield service, url


async def reserve_many(ledger: Any, count: int = MANY, **options: Any) -> list[Any]:
    asked = (ledger.reserve("org/a", {"calls": 1}, **options) for _ in range(count))
    return await asyncio.gather(*asked, return_exceptions=True)


def test_tasks_that_ask_at_once_go_in_one_request() -> None:
    async def work(url: str) -> None:
        ledger = AsyncHttpLedger(url)
        holds = await reserve_many(ledger)
        assert len({hold.id for hold in holds}) == MANY
        await asyncio.gather(*(ledger.commit(hold) for hold in holds))

    with served() as (service, url):
        asyncio.run(work(url))
        assert service.paths == ["/v1/batch"] * 2
        assert service.counted == (MANY, 0)


def test_one_request_alone_is_no_batch() -> None:
    async def work(url: str) -> None:
        ledger = AsyncHttpLedger(url)
        await ledger.commit(await ledger.reserve("org/a", {"calls": 1}))

    with served() as (service, url):
        asyncio.run(work(url))
        assert service.paths == ["/v1/reserve/org/a", "/v1/commit/org/a"]


def test_each_has_its_own_answer_and_error() -> None:
    async def work(url: str) -> list[Any]:
        ledger = AsyncHttpLedger(url)
        settled = await ledger.release(await ledger.reserve("org/a", {"calls": 1}, "one"))
        await ledger.commit(await ledger.reserve("org/a", {"calls": 2}, "two"))
        asked = (
            ledger.reserve("org/a", {"calls": 1}, "three"),
            ledger.reserve("org/a", {"calls": 5_000}),
            ledger.charge("org/a", {"calls": 7}, "two"),
            ledger.commit(Hold("org/a", "nobody's")),
            ledger.extend(settled),
            ledger.charge("org/b", {"calls": 3}),
            ledger.reserve("org/a", {"unheard-of": 3}),
            ledger.release(Hold("org/a", "half a pair \ud800")),
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    with served() as (service, url):
        found = asyncio.run(work(url))
        assert service.paths.count("/v1/batch") == 1
    kinds = (BudgetExceededError, KeyReusedError, UnknownHoldError, HoldSettledError)
    assert (found[0].state, found[5].actual) == (Hold.HELD, {"calls": 3})
    assert tuple(map(type, found[1:5])) == kinds
    assert (found[1].scope, found[1].left) == ("org", 997)
    assert isinstance(found[6], ValueError)
    assert isinstance(found[7], ValueError)
    assert service.counted == (5, 1)


def test_a_batch_whose_answer_is_lost_is_sent_again_and_counts_once() -> None:
    with served() as (service, url):
        service.answers_to_lose = 1
        holds = asyncio.run(reserve_many(AsyncHttpLedger(url)))
        assert {hold.state for hold in holds} == {Hold.HELD}
        assert service.paths == ["/v1/batch"] * 2
        assert service.counted == (0, MANY)


def test_each_learns_that_the_outcome_is_unknown() -> None:
    with served() as (service, url):
        service.answers_to_lose = 2
        found = asyncio.run(reserve_many(AsyncHttpLedger(url), 10))
        assert len({id(error) for error in found}) == 10
        for error in found:
            assert isinstance(error, LedgerUnavailableError)
            assert error.applied is None


def test_a_refused_key_refuses_each(tmp_path: Any) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.add("ann", "org/b", ("reserve",))
    with served(keys) as (_, url):
        for error in asyncio.run(reserve_many(AsyncHttpLedger(url, key), 3)):
            assert type(error) is LedgerError
            assert "org/b" in str(error)
        keys.revoke("ann")
        for error in asyncio.run(reserve_many(AsyncHttpLedger(url, key), 3)):
            assert type(error) is LedgerError
            assert "known key" in str(error)


def test_a_batch_is_no_larger_than_its_answer_may_be() -> None:
    with served() as (service, url):
        ledger = AsyncHttpLedger(url, max_response_bytes=65_536)
        assert len(asyncio.run(reserve_many(ledger))) == MANY
        assert service.paths == ["/v1/batch"] * 4


def test_bodies_that_are_too_large_together_go_apart() -> None:
    with served() as (service, url):
        service.ledger.set_limits("org", [Limit("calls", 10**6)])
        long = "x" * 100
        key = "k" * 200

        async def work() -> list[Any]:
            ledger = AsyncHttpLedger(url)
            path = "/".join(["org", *[long[:60]] * 7])
            amounts = {f"{long[:50]}{number}": 10**15 for number in range(15)}
            asked = (
                ledger.charge(path, {"calls": 1, **amounts}, f"{key[:90]}{n}") for n in range(900)
            )
            return await asyncio.gather(*asked)

        assert len(asyncio.run(work())) == 900
        assert service.paths == ["/v1/batch"] * 2
        assert service.counted[0] == 900


def test_a_wait_and_a_devices_report_go_alone() -> None:
    with served() as (service, url):
        ledger = AsyncHttpLedger(url)
        asyncio.run(reserve_many(ledger, 3, wait=1))
        ledger.report(5, 10)
        asyncio.run(reserve_many(ledger, 3))
        assert service.paths == ["/v1/reserve/org/a"] * 6


def test_loops_side_by_side_have_queues_of_their_own() -> None:
    with served() as (service, url):
        ledger = AsyncHttpLedger(url)
        found: list[Any] = []
        begun = threading.Barrier(2)

        def work() -> None:
            begun.wait()
            found.extend(asyncio.run(reserve_many(ledger)))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {hold.state for hold in found} == {Hold.HELD}
        assert service.counted == (0, 2 * MANY)


def test_threads_never_exceed_a_limit() -> None:
    with served() as (service, url), ExitStack() as stack:
        service.ledger.set_limits("org", [Limit("calls", 150)])
        ledger = stack.enter_context(closing(HttpLedger(url)))
        granted: list[Hold] = []

        def work() -> None:
            for _ in range(20):
                with suppress(BudgetExceededError):
                    granted.append(ledger.commit(ledger.reserve("org/a", {"calls": 1})))

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == 150
        assert service.counted == (150, 0)


def test_a_lease_settles_in_one_request_what_it_owes() -> None:
    async def work(service: Service, url: str) -> None:
        leased = AsyncLeasedLedger(AsyncHttpLedger(url), {"calls": 1})
        paths = [f"org/{number}" for number in range(20)]
        holds = [await leased.reserve(path, {"calls": 1}) for path in paths]
        for hold in holds:
            leased.record(hold)
        service.paths.clear()
        await leased.close()

    with served() as (service, url):
        asyncio.run(work(service, url))
        assert service.paths == ["/v1/batch"]
        assert service.counted == (20, 0)

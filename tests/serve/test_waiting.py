"""Requests that wait at the service for what others hold."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from budget_core.ledger.waiting import room_of
from budget_cpython import BudgetExceededError, Deadline, Limit
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.web import served_ledger
from tests.serve.support import PATIENCE, Client, Service, make_client


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as running:
        yield running
        assert running.end() == (0, "")


@pytest.fixture
def ledger(service: Service, request: pytest.FixtureRequest) -> Iterator[HttpLedger]:
    with closing(HttpLedger(service.url, timeout_s=PATIENCE)) as found:
        yield found


@pytest.fixture
def ask() -> Client:
    return make_client(("org", "tokens", 100, "run"))


async def until_waiting(client: Client, number: int) -> None:
    """Return when so many requests wait."""

    def look() -> None:
        end = time.monotonic() + PATIENCE
        while room_of(client.ledger).waiting != number:
            assert time.monotonic() < end
            time.sleep(0.001)

    await asyncio.to_thread(look)


def body(tokens: int, **more: Any) -> dict[str, Any]:
    return {"amounts": {"tokens": tokens}, **more}


def test_a_request_waits_for_what_another_one_holds(ask: Client) -> None:
    async def play() -> httpx.Response:
        held = (await ask.ask("POST", "/v1/reserve/org", body(60))).json()
        waits = asyncio.create_task(ask.ask("POST", "/v1/reserve/org", body(50, wait=PATIENCE)))
        await until_waiting(ask, 1)
        await ask.ask("POST", "/v1/release/org", {"id": held["id"]})
        return await waits

    answer = asyncio.run(play())
    assert (answer.status_code, answer.json()["state"]) == (200, "held")


def test_a_request_that_waited_in_vain_is_told_how_long(ask: Client) -> None:
    ask.ledger.reserve("org", {"tokens": 60})
    said = ask("POST", "/v1/reserve/org", body(50, wait=0.02)).json()
    assert (said["waited_ms"], said["held"]) == (20, 60)
    assert said["message"].endswith("; waited 0.0 s")


def test_a_service_waits_no_longer_than_its_bound(
    ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_ledger, "MAX_WAIT_S", 0.03)
    ask.ledger.reserve("org", {"tokens": 60})
    assert ask("POST", "/v1/reserve/org", body(50, wait=3600)).json()["waited_ms"] == 30


def test_where_too_many_wait_the_next_one_is_answered_at_once(
    ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_ledger, "MAX_WAITING", 0)
    ask.ledger.reserve("org", {"tokens": 60})
    assert ask("POST", "/v1/reserve/org", body(50, wait=3600)).json()["waited_ms"] == 0


@pytest.mark.parametrize("wait", [-1, "1", True, [1]])
def test_a_malformed_wait_is_refused(ask: Client, wait: Any) -> None:
    answer = ask("POST", "/v1/reserve/org", body(1, wait=wait))
    assert (answer.status_code, "wait must be" in answer.json()["message"]) == (422, True)


def test_a_client_that_disconnects_while_it_waits_leaves_nothing(service: Service) -> None:
    async def play() -> tuple[int, int]:
        ledger = AsyncHttpLedger(service.url, timeout_s=PATIENCE)
        await ledger.set_limits("gone", [Limit("tokens", 100)])
        held = await ledger.reserve("gone", {"tokens": 60})
        task = asyncio.create_task(ledger.reserve("gone", {"tokens": 90}, "left", wait=PATIENCE))
        # a smaller call waits behind it, until it is gone
        assert await refused_behind(ledger, "gone")
        task.cancel()
        await ledger.commit(
            await ledger.reserve("gone", {"tokens": 10}, wait=PATIENCE), {"tokens": 1}
        )
        await ledger.release(held)
        [row] = await ledger.balance("gone")
        return row.spent, row.held

    assert asyncio.run(play()) == (1, 0)


async def refused_behind(ledger: AsyncHttpLedger, path: str) -> bool:
    """Return once a call is refused although it would fit: another one waits before it."""
    while True:
        try:
            await ledger.release(await ledger.reserve(path, {"tokens": 10}, wait=0.05))
        except BudgetExceededError as error:
            return error.left == 0


def test_threads_of_clients_are_served_one_after_the_other(ledger: HttpLedger) -> None:
    ledger.set_limits("threads", [Limit("tokens", 100)])
    failed: list[BaseException] = []

    def call() -> None:
        try:
            hold = ledger.reserve("threads", {"tokens": 60}, wait=PATIENCE)
            ledger.commit(hold, {"tokens": 1})
        except BaseException as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [row] = ledger.balance("threads")
    assert (failed, row.spent, row.held) == ([], 20, 0)


def test_a_client_asks_again_where_the_service_waits_for_less(service: Service) -> None:
    asked: list[Any] = []

    class Impatient(AsyncHttpLedger):
        async def _ask_hold(self, operation: str, path: str, fields: dict[str, Any]) -> Any:
            asked.append(fields["wait"])
            return await super()._ask_hold(operation, path, {**fields, "wait": 0.01})

    ledger = Impatient(service.url, timeout_s=PATIENCE)
    asyncio.run(ledger.set_limits("again", [Limit("tokens", 100)]))
    with closing(HttpLedger(service.url, timeout_s=PATIENCE)) as other:
        other.reserve("again", {"tokens": 60})
    with pytest.raises(BudgetExceededError):
        asyncio.run(ledger.reserve("again", {"tokens": 50}, wait=0.03))
    assert asked == [0.03, 0.02, 0.01]


def test_the_current_deadline_bounds_what_is_asked_of_the_service(ledger: HttpLedger) -> None:
    ledger.set_limits("late", [Limit("tokens", 100)])
    ledger.reserve("late", {"tokens": 60})
    with Deadline.from_now(0.05).as_current(), pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("late", {"tokens": 60}, wait=PATIENCE)
    assert 0 < caught.value.waited_ms <= 50

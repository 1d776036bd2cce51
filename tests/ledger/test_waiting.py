"""Calls that wait for holds, from threads and from event loops, on every engine of this machine."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger import waiting
from budget_core.ledger.waiting import reserve_waiting, room_of
from budget_cpython import BudgetExceededError, Deadline, Ledger, Limit
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from budget_cpython.ledger.redis import AsyncRedisLedger
from budget_cpython.ledger.threaded import ThreadedLedger
from tests.forked import begin_in_child, exit_code, in_child
from tests.ledger.engines import Engine, Memory, Redis, Sqlite
from tests.ledger.patience import NO_HURRY, PATIENCE, until
from tests.ledger.redis.server import empty_server

AMOUNT = {"tokens": 60}


class Leased(Engine):
    def open(self, **options: Any) -> LeasedLedger:
        return LeasedLedger(Ledger(), {"tokens": 10})


class Capped(Engine):
    def open(self, **options: Any) -> OfflineCapLedger:
        return OfflineCapLedger(Ledger(), {"tokens": 10})


@pytest.fixture(params=[Memory, Sqlite, Leased, Capped, Redis])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with closing(request.param(tmp_path).make()) as opened:
        opened.set_limits("org", [Limit("tokens", 100)])
        yield opened


class Waiters:
    """Threads that wait for holds of one ledger; `served` has their names, in order."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.served: list[str] = []
        self.holds: dict[str, Any] = {}
        self.errors: list[BudgetExceededError] = []
        self._threads: list[threading.Thread] = []

    def come(self, name: str, tokens: int, wait: float = NO_HURRY) -> None:
        """Have a call come, and return once it waits."""

        def ask() -> None:
            try:
                self.holds[name] = self.ledger.reserve("org", {"tokens": tokens}, wait=wait)
                self.served.append(name)
            except BudgetExceededError as error:
                self.errors.append(error)

        room = room_of(self.ledger)
        before = room.waiting
        self._threads.append(threading.Thread(target=ask, daemon=True))
        self._threads[-1].start()
        until(lambda: room.waiting > before)

    def hold_of(self, name: str) -> Any:
        """Return the hold of a call, once it has one."""
        until(lambda: name in self.holds)
        return self.holds[name]

    def join(self) -> None:
        """Return once all calls have ended."""
        for thread in self._threads:
            thread.join(NO_HURRY)
            assert not thread.is_alive()


def test_threads_are_served_in_the_order_in_which_they_came(ledger: Any) -> None:
    waiters = Waiters(ledger)
    last = ledger.reserve("org", {"tokens": 90})
    for name in "1234":
        waiters.come(name, 60)
    for name in "1234":
        ledger.commit(last, {"tokens": 1})
        last = waiters.hold_of(name)
    waiters.join()
    assert waiters.served == list("1234")
    assert not {"commit", "release", "charge"} & set(vars(ledger))  # no method is replaced


def test_a_thread_that_waits_hears_that_it_is_spent(ledger: Any) -> None:
    waiters = Waiters(ledger)
    hold = ledger.reserve("org", AMOUNT)
    waiters.come("1", 60)
    ledger.commit(hold)
    waiters.join()
    [error] = waiters.errors
    assert (error.asked, error.is_held) == (60, False)


def test_tasks_of_a_threaded_ledger_wait_without_a_thread_each(tmp_path: Path) -> None:
    async def play(ledger: Any) -> int:
        async def call() -> None:
            hold = await ledger.reserve("org", AMOUNT, wait=NO_HURRY)
            await asyncio.sleep(0)
            await ledger.commit(hold, {"tokens": 1})

        await asyncio.gather(*[call() for _ in range(40)])
        [row] = await ledger.balance("org")
        return int(row.spent)

    with closing(Sqlite(tmp_path).make()) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100)])
        assert asyncio.run(play(ThreadedLedger(ledger))) == 40


def test_a_task_that_is_cancelled_while_the_ledger_is_asked_leaves_nothing(tmp_path: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    class Slow(Ledger):
        def reserve(self, *arguments: Any, **named: Any) -> Any:
            begun.set()
            assert goes_on.wait(NO_HURRY)
            return super().reserve(*arguments, **named)

    async def play() -> None:
        slow = Slow()
        slow.set_limits("org", [Limit("tokens", 100)])
        task = asyncio.create_task(ThreadedLedger(slow).reserve("org", AMOUNT, wait=NO_HURRY))
        await asyncio.to_thread(begun.wait, NO_HURRY)
        task.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        [row] = slow.balance("org")
        assert (row.spent, row.held) == (0, 0)

    asyncio.run(play())


def test_tasks_on_redis_wait_in_turn() -> None:
    async def play() -> list[int]:
        ledger = AsyncRedisLedger(empty_server().url, timeout=PATIENCE)
        await ledger.set_limits("org", [Limit("tokens", 100)])
        served: list[int] = []

        async def call(number: int) -> None:
            hold = await ledger.reserve("org", AMOUNT, wait=NO_HURRY)
            served.append(number)
            await ledger.commit(hold, {"tokens": 1})

        held = await ledger.reserve("org", AMOUNT)
        tasks = [asyncio.create_task(call(number)) for number in range(20)]
        await asyncio.to_thread(until, lambda: room_of(ledger).waiting == len(tasks))
        await ledger.release(held)
        await asyncio.gather(*tasks)
        await ledger.close()
        return served

    assert asyncio.run(play()) == list(range(20))


class Process:
    """A ledger as another process sees it: it does not see who waits here."""

    def __init__(self, ledger: Any) -> None:
        self.reserve, self.hold, self.release = ledger.reserve, ledger.hold, ledger.release


def test_a_process_whose_calls_always_wait_gives_way_to_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "TURN_MS", 100)

    async def play() -> None:
        ledger = Ledger()
        ledger.set_limits("org", [Limit("tokens", 100)])
        busy, patient = Process(ledger), Process(ledger)
        served, left = asyncio.Event(), [None] * 30  # calls of the busy one

        async def call_again_and_again() -> None:
            while left and not served.is_set():
                hold = await reserve_waiting(busy, "org", AMOUNT)
                left.pop()
                await asyncio.sleep(0.1)
                busy.release(hold)

        async def call_once() -> None:
            hold = await reserve_waiting(patient, "org", AMOUNT, wait=NO_HURRY)
            served.set()
            patient.release(hold)

        tasks = [asyncio.create_task(call_again_and_again()) for _ in range(3)]
        await asyncio.sleep(0)
        last = asyncio.create_task(call_once())
        await tasks[0]
        assert left
        for task in [*tasks, last]:
            task.cancel()

    asyncio.run(play())


def test_a_forked_process_does_not_wait_behind_its_parents_calls() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 100)])
    waiters = Waiters(ledger)
    held = ledger.reserve("org", AMOUNT)
    waiters.come("1", 60)

    assert in_child(lambda: ledger.reserve("org", {"tokens": 40}, wait=NO_HURRY)) == 0
    ledger.commit(held, {"tokens": 1})
    waiters.join()


def test_a_hold_commits_as_before_where_nobody_ever_waited() -> None:
    ledger = Ledger()
    assert "commit" not in vars(ledger)


def test_the_current_deadline_bounds_a_wait() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 100)])
    ledger.reserve("org", AMOUNT)
    with Deadline.from_now(0.03).as_current(), pytest.raises(BudgetExceededError) as caught:
        ledger.reserve("org", AMOUNT, wait=NO_HURRY)
    assert 0 < caught.value.waited_ms <= 30


def test_a_process_that_dies_while_it_waits_leaves_nothing(tmp_path: Path) -> None:
    with closing(Sqlite(tmp_path).make()) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100)])
        held = ledger.reserve("org", AMOUNT)
        waits, told = os.pipe()

        def tell() -> None:
            until(lambda: room_of(ledger).waiting)
            os.write(told, b".")

        def wait_and_tell() -> None:
            threading.Thread(target=tell).start()
            ledger.reserve("org", AMOUNT, wait=NO_HURRY)

        child = begin_in_child(wait_and_tell)
        assert os.read(waits, 1) == b"."
        os.kill(child, signal.SIGKILL)
        assert exit_code(child) == -signal.SIGKILL
        os.close(waits)
        os.close(told)
        ledger.release(held)
        assert ledger.reserve("org", {"tokens": 100}, wait=NO_HURRY).state == "held"

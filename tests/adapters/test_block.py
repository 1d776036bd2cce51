"""`with budget(...)`: what draws on it, and what does not."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, budgeted
from budget_cpython.adapters.layer import Layer
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import call_async, call_blocking


def test_calls_draw_on_the_block_around_them() -> None:
    with budget("2 calls + 1000 tokens") as block:
        call_blocking()
        asyncio.run(call_async())
        with pytest.raises(BudgetExceededError, match="agent has 0 of 2 calls"):
            call_blocking()
    call_blocking()
    assert (block.spent["calls"], block.spent["tokens"]) == (2, 30)
    assert block.left == {"calls": 0, "tokens": 970}


def test_a_block_shows_what_is_spent() -> None:
    with budget("$0.50 + 2 calls/hour") as block:
        call_blocking()
    assert repr(block) == "<agent: 1 of 2 calls per hour, $0.0000045 of $0.50, 15 tokens spent>"
    assert repr(budget("1 min", account="acme")) == "<acme: nothing spent>"


def test_blocks_inside_one_another_all_count() -> None:
    with budget("3 calls", account="outer") as outer:
        with budget("1 calls", account="inner") as inner:
            call_blocking()
            with pytest.raises(BudgetExceededError, match="inner"):
                call_blocking()
        call_blocking()
    assert (outer.spent["calls"], inner.spent["calls"]) == (2, 1)
    assert outer.left["calls"] == 1


def test_a_client_s_own_limits_count_inside_a_block() -> None:
    own = Layer(parse_limits("1 calls/day"), account="client")
    with budget("5 calls") as block:
        call_blocking(own)
        with pytest.raises(BudgetExceededError, match="client"):
            call_blocking(own)
    assert block.left["calls"] == 4


def test_threads_and_executors_draw_on_the_block_in_which_they_start() -> None:
    with ThreadPoolExecutor(1) as pool:
        with budget("9 calls") as block:
            pool.submit(call_blocking).result()
            thread = threading.Thread(target=call_blocking)
            thread.start()
            thread.join()
            asyncio.run(asyncio.to_thread(asyncio.run, call_async()))
        pool.submit(call_blocking).result()
    assert block.spent["calls"] == 3


def test_a_thread_of_an_executor_takes_no_deadline_along() -> None:
    with ThreadPoolExecutor(1) as pool:
        with budget("0 s"), pytest.raises(DeadlineExceeded):
            pool.submit(call_blocking).result()
        pool.submit(call_blocking).result()


def test_tasks_draw_on_the_block_in_which_they_are_made() -> None:
    async def main() -> Any:
        async with budget("5 calls") as block, asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(call_async())
        return block

    assert asyncio.run(main()).left["calls"] == 0


def test_a_block_whose_time_is_over_admits_no_call() -> None:
    with budget("0 s + 5 calls") as block, pytest.raises(DeadlineExceeded):
        call_blocking()
    assert block.left["calls"] == 5


def test_a_block_may_be_entered_again_and_keeps_what_was_used() -> None:
    block = budget("2 calls")
    for _ in range(2):
        with block, block:
            call_blocking()
    assert block.left["calls"] == 0


def test_each_call_of_a_decorated_function_has_a_budget_of_its_own() -> None:
    @budgeted("1 calls")
    def once() -> None:
        call_blocking()

    @budgeted("1 calls")
    async def twice() -> None:
        await call_async()
        await call_async()

    once()
    once()
    with pytest.raises(BudgetExceededError):
        asyncio.run(twice())


def test_a_generator_is_refused() -> None:
    def parts() -> Any:
        yield 1

    with pytest.raises(ValueError, match="enter budget"):
        budgeted("1 calls")(parts)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": "5"}, "5"),
        ({"limits": "1 calls", "ledger": "memory:"}, "account"),
        ({"limits": "1 calls", "budget": 1}, "no option budget"),
        ({"limits": "1 calls", "enforcement": "stop"}, "enforcement"),
        ({"limits": "1 calls", "wait": -1}, "wait"),
    ],
)
def test_malformed_budgets_are_refused_with_their_value(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        budget(**given)


def test_budgeted_names_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"adapters\.md"):
        budgeted(5, "1 calls")

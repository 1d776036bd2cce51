"""`with budget(...)`: what draws on it, and what does not."""

import asyncio
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from functools import partial, wraps
from pathlib import Path
from pydoc import plain, render_doc
from typing import Any

import httpx
import pytest

from budget_cpython import (
    BudgetExceededError,
    DeadlineExceeded,
    Ledger,
    budget,
    budgeted,
    open_async_ledger,
)
from budget_cpython.adapters.account import BudgetAccount, Options
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.context.entered import current_accounts
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import a_request, call_async, call_blocking


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
    assert (
        repr(block)
        == "<agent: 1 of 2 calls per hour, 1 calls, $0.0000045 of $0.50, 15 tokens spent>"
    )
    named = budget("1 calls/day", ledger=Ledger(), account="acme")
    assert repr(named) == "<acme: 0 of 1 calls per day spent>"
    assert repr(budget("1 min")) == "<agent: nothing spent>"


def test_a_runaway_is_stopped_by_a_rolling_limit() -> None:
    with budget("$5 + 2 calls/10min", ledger=Ledger(), account="acme") as block:
        call_blocking()
        call_blocking()
        says = r"acme has 0 of 2 calls per 10 min left, not 1, until .*, in \d+ min at the latest"
        with pytest.raises(BudgetExceededError, match=says):
            call_blocking()
    assert repr(block).startswith("<acme: 2 of 2 calls per 10 min, $0.000009 of $5.00 spent")


def test_blocks_inside_one_another_all_count() -> None:
    with budget("3 calls", ledger=Ledger(), account="outer") as outer:
        with budget("1 calls", ledger=Ledger(), account="inner") as inner:
            call_blocking()
            with pytest.raises(BudgetExceededError, match="inner"):
                call_blocking()
        call_blocking()
    assert (outer.spent["calls"], inner.spent["calls"]) == (2, 1)
    assert outer.left["calls"] == 1


def test_a_client_s_own_limits_count_inside_a_block() -> None:
    own = BudgetAccount(parse_limits("1 calls/day"), account="client")
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


def test_a_broken_call_is_charged_at_once_and_shown_as_estimated() -> None:
    with budget("5 calls + $1") as run:
        broken = BudgetedCall([], a_request())
        broken.begin_blocking()
        assert run.held == {"calls": 1, "nano_usd": 12_900, "tokens": 26}
        assert repr(run) == "<agent: 0 of 5 calls, $0.00 of $1.00 spent; 1 held>"
        broken.fail_blocking(ConnectionError())
        call_blocking()
    assert run.spent == {"calls": 2, "nano_usd": 17_400, "tokens": 41, "tool_calls": 0}
    assert (run.held, run.estimated, run.unpriced) == ({}, 1, 0)
    spent = "2 of 5 calls, $0.0000174 of $1.00, 41 tokens spent"
    assert repr(run) == f"<agent: {spent}; 1 estimated>"


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_call_that_is_left_is_charged_at_once(is_closed: bool) -> None:
    def stream() -> Generator[None, None, None]:
        call = BudgetedCall([], a_request(stream=True))
        call.begin_blocking()
        try:
            call.on_text("word")
            yield
        finally:
            call.abandon()

    with budget("5 calls") as run:
        pieces = stream()
        next(pieces)
        if is_closed:
            pieces.close()
        del pieces
    assert (run.spent["calls"], run.spent["tokens"], run.held) == (1, 26, {})


def test_a_call_of_asyncio_that_is_closed_is_charged_at_once(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'budget.db'}"

    async def leave() -> None:
        call = BudgetedCall([], a_request())
        await call.begin()
        call.abandon()

    with budget("5 calls", ledger=url, account="acme") as run:
        asyncio.run(leave())
    assert (run.spent["calls"], run.held, run.estimated) == (1, {}, 1)


def test_money_without_a_price_is_not_shown_as_zero() -> None:
    with budget("5 calls") as run:
        call_blocking(model="nobody-knows-it")
        assert "nano_usd" not in run.spent
        assert repr(run) == "<agent: 1 of 5 calls, 15 tokens spent; 1 unpriced>"
        call_blocking()
        assert run.spent["nano_usd"] == 4_500
    assert (run.estimated, run.unpriced) == (0, 1)


def test_the_calls_of_a_client_below_a_blocks_account_count_on_the_block(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'budget.db'}"
    client = BudgetAccount(parse_limits("9 calls"), url, "acme/bot")
    with budget("5 calls", ledger=url, account="acme") as run:
        call_blocking(client, model="nobody-knows-it", usage=None)
    assert (
        (run.estimated, run.unpriced) == (client.calls.estimated, client.calls.unpriced) == (1, 1)
    )


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


def test_calls_of_a_generator_draw_on_its_block_in_any_context_that_iterates_it() -> None:
    def parts() -> Iterator[Any]:
        with budget("2 calls") as block:
            while True:
                call_blocking()
                yield block

    generator = parts()
    block = Context().run(next, generator)
    call_blocking()
    assert block.spent["calls"] == 1
    Context().run(next, generator)
    with pytest.raises(BudgetExceededError):
        Context().run(next, generator)


def test_a_generator_is_refused() -> None:
    def parts() -> Any:
        yield 1

    with pytest.raises(ValueError, match="enter budget"):
        budgeted("1 calls")(parts)


class Hidden:
    """Objects whose calls give coroutines, which no inspection of them tells."""

    async def __call__(self) -> int:
        return len(current_accounts())

    def parts(self) -> Any:
        return (len(current_accounts()) for _ in range(1))


def test_a_function_that_returns_a_coroutine_is_decorated_as_an_async_one() -> None:
    hidden = Hidden()
    for function in (hidden, partial(hidden), wraps(hidden)(lambda: hidden())):
        assert asyncio.run(budgeted("1 calls")(function)()) == 1
    with pytest.raises(ValueError, match="enter budget"):
        budgeted("1 calls")(hidden.parts)()


def test_methods_are_decorated_below_what_makes_them_class_methods() -> None:
    class Agent:
        @classmethod
        @budgeted("1 calls")
        def name(cls) -> tuple[str, int]:
            return cls.__name__, len(current_accounts())

        @staticmethod
        @budgeted("1 calls")
        def blocks() -> int:
            return len(current_accounts())

    assert (Agent.name(), Agent().blocks()) == (("Agent", 1), 1)
    wrong: Any
    for wrong in (vars(Agent)["name"], vars(Agent)["blocks"], 5):
        with pytest.raises(ValueError, match="below @classmethod"):
            budgeted("1 calls")(wrong)


def test_with_a_ledger_all_calls_of_a_function_draw_on_one_account() -> None:
    @budgeted("2 calls", ledger=Ledger(), account="acme")
    def ask() -> None:
        call_blocking()

    ask()
    ask()
    with pytest.raises(BudgetExceededError):
        ask()


@pytest.mark.parametrize("limits", ["", 0, 5])
def test_a_client_is_never_left_without_the_limits_it_was_given(limits: Any) -> None:
    with httpx.Client() as client, pytest.raises(ValueError, match="a budget must be"):
        budgeted(client, limits)


@pytest.mark.parametrize("axis", ["cals", "tokns", "toolcalls", "dollars", "USD", "foo"])
def test_a_limit_that_nothing_counts_is_refused(axis: str) -> None:
    for limited in (budget, budgeted):
        with pytest.raises(ValueError, match=f"5 {axis}' limits nothing|not '5 {axis}': money is"):
            limited(f"5 {axis}")
    with budget(f"5 tool:{axis}", tool_prices={axis: 0}) as block:
        assert block.left == {axis: 5}


def test_an_axis_may_be_a_tool() -> None:
    with budget("5 tool:search + 5 call") as block:
        assert block.left == {"search": 5, "calls": 5}


def test_the_figures_of_an_asyncio_ledger_are_awaited(tmp_path: Any) -> None:
    block = budget("5 min", ledger=open_async_ledger(f"sqlite:{tmp_path / 'b.db'}"), account="a")
    with pytest.raises(ValueError, match=r"await ledger\.balance"):
        _ = block.spent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limits": "5"}, "5"),
        ({"limits": "1 calls", "ledger": "memory:"}, "account"),
        ({"limits": "1 calls", "budget": 1}, "no option budget"),
        ({"limits": "1 calls", "enforcement": "stop"}, "enforcement"),
        ({"limits": "1 calls", "wait": -1}, "wait"),
        ({"limits": ""}, "''"),
        ({"limits": "1 calls", "account": "a"}, "account='a' names an account of a ledger"),
        ({"limits": "1 min", "account": "a"}, "or limits with a window, such as '\\$5/day'"),
        ({"limits": "1 calls/day", "account": ""}, "path"),
        ({"limits": "1 calls", "estimates": "no"}, "estimates"),
        ({"limits": "1 calls", "on_limit_reached": 5}, "on_limit_reached"),
    ],
)
def test_malformed_budgets_are_refused_with_their_value(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        budget(**given)


def test_limits_of_tools_are_refused_for_a_client_that_calls_none() -> None:
    with httpx.Client() as client:
        for limits in ("20 tool_calls", "$5 + 3 tool:search"):
            with pytest.raises(ValueError, match="httpx counts calls of models"):
                budgeted(client, limits)


def test_help_lists_the_options() -> None:
    shown = plain(render_doc(budget))
    for option in Options.__annotations__:
        assert f"`{option}`" in shown
    assert '- `enforcement`: `"cutoff"` refuses' in shown


def test_budgeted_names_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"adapters\.md"):
        budgeted(5, "1 calls")

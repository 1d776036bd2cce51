"""One call of an SDK: what is admitted, what is sent instead, and how it is settled."""

import asyncio
import gc
import threading
from dataclasses import replace
from typing import Any

import pytest

from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.waiting import room_of
from budget_cpython import BudgetExceededError, SqliteLedger, open_async_ledger, open_ledger
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import a_request, an_answer, call_async, call_blocking, used
from tests.ledger.patience import PATIENCE

TOOLS = [{"name": "search", "native": object()}, {"name": "pay", "native": object()}]


class RefusedError(Exception):
    """A provider's error that costs nothing."""

    sent = False


def an_account(text: str, **options: Any) -> BudgetAccount:
    return BudgetAccount(parse_limits(text), **options)


def test_a_call_without_accounts_is_sent_as_it_is() -> None:
    admitted = call_blocking(tools=TOOLS)
    assert (admitted.model, admitted.notices, admitted.max_tokens) == ("gpt-4o-mini", (), 20)
    assert admitted.tools == TOOLS


def test_a_call_holds_before_and_records_what_it_used() -> None:
    account = an_account("1000 tokens")
    call = BudgetedCall([account], a_request())
    call.begin_blocking()
    assert used(account) == (0, 26)
    call.end_blocking(an_answer())
    call.end_blocking(an_answer())
    call.abandon()
    assert used(account) == (15, 0)


def test_an_answer_is_cut_to_what_is_left() -> None:
    assert call_blocking(an_account("100 tokens"), max_tokens=500).max_tokens == 94


def test_near_its_end_the_model_is_told_and_loses_its_tools() -> None:
    account = an_account("4 calls", tool_strip_threshold=0.75, warning_thresholds=(0.5,))
    assert call_blocking(account, tools=TOOLS).notices == ()
    call_blocking(account, tools=TOOLS)
    warned = call_blocking(account, tools=TOOLS)
    assert warned.tools == TOOLS
    assert "50% of your agent budget is used (2 of 4 calls)" in warned.notices[0]
    last = call_blocking(account, tools=TOOLS)
    assert last.tools is None
    assert len(last.notices) == 1


def test_only_disallowed_tools_are_withdrawn() -> None:
    account = an_account("2 calls", tool_strip_threshold=0, tool_strip_disallow=("pay",))
    assert call_blocking(account, tools=TOOLS).tools == TOOLS[:1]


def test_a_cheaper_model_takes_over() -> None:
    account = an_account("$0.0001", fallback_model="gpt-4o-mini")
    request = replace(a_request(max_tokens=100), model="gpt-4")
    admitted = BudgetedCall([account], request).begin_blocking()
    assert (admitted.model, admitted.max_tokens) == ("gpt-4o-mini", 100)


def test_a_forgotten_call_may_be_collected_while_another_is_counted() -> None:
    account = an_account("1000 tokens")
    BudgetedCall([account], a_request()).begin_blocking()
    collected: list[int] = []

    def collect() -> None:
        with account.tracker.lock:
            collected.append(gc.collect())

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert collected


def test_a_refusal_of_one_account_releases_what_the_others_hold() -> None:
    outer, inner = (
        an_account("100 tokens", account="outer"),
        an_account("5 tokens", account="inner"),
    )
    with pytest.raises(BudgetExceededError, match="inner"):
        call_blocking(outer, inner)
    assert used(outer) == (0, 0)


def test_a_mistake_in_one_account_releases_what_the_others_hold() -> None:
    outer, unknown = an_account("100 tokens"), BudgetAccount((), open_ledger("memory:"), "unknown")
    with pytest.raises(UnknownAccountError, match="unknown"):
        call_blocking(outer, unknown)
    assert used(outer) == (0, 0)


def test_a_limit_that_no_ledger_can_hold_is_cut_as_any_other() -> None:
    assert call_blocking(an_account("100 tokens"), max_tokens=1 << 70).max_tokens == 94


def test_a_call_that_two_tasks_end_is_settled_once(tmp_path: Any) -> None:
    account = BudgetAccount(parse_limits("100 tokens"), f"sqlite:{tmp_path / 'budget.db'}", "acme")

    async def main() -> None:
        for settle in ("end", "abandon"):
            call = BudgetedCall([account], a_request())
            await call.begin()
            first = asyncio.create_task(call.end(an_answer()))
            await asyncio.sleep(0)
            await call.end(an_answer()) if settle == "end" else call.abandon()
            await first

    asyncio.run(main())
    assert used(account) == (30, 0)
    account.ledger.close()


def test_an_account_above_another_is_drawn_on_once() -> None:
    ledger = open_ledger("memory:")
    above = BudgetAccount(parse_limits("9 calls"), ledger, "acme")
    below = BudgetAccount(parse_limits("9 calls"), ledger, "acme/research")
    call_blocking(above, below, below)
    assert (used(above, "calls"), used(below, "calls")) == ((1, 0), (1, 0))


def test_a_call_that_answers_another_one_is_not_counted_twice() -> None:
    outer, own = an_account("9 calls"), an_account("9 calls")
    call = BudgetedCall([outer], a_request())
    call.begin_blocking()
    with call.answering():
        call_blocking(outer, own)
    call_blocking(outer)
    call.end_blocking(an_answer())
    assert (used(outer, "calls"), used(own, "calls")) == ((2, 0), (1, 0))


@pytest.mark.parametrize("below", ["acme", "acme/research"])
def test_an_answer_draws_on_an_account_below_the_one_of_its_call(below: str) -> None:
    ledger = open_ledger("memory:")
    above = BudgetAccount(parse_limits("9 calls"), ledger, "acme")
    own = BudgetAccount((), ledger, below)
    call = BudgetedCall([above], a_request())
    call.begin_blocking()
    with call.answering():
        call_blocking(own)
    call.end_blocking(an_answer())
    assert used(above, "calls") == (1 + (below != "acme"), 0)


@pytest.mark.parametrize("observed", ["acme", "acme/research"])
def test_an_answer_keeps_its_limits_where_its_call_is_only_observed(observed: str) -> None:
    ledger = open_ledger("memory:")
    own = BudgetAccount(parse_limits("2 calls"), ledger, "acme")
    outer = BudgetAccount((), ledger, observed, enforcement="observe")
    call_blocking(own)
    call = BudgetedCall([outer], a_request())
    call.begin_blocking()
    with call.answering(), pytest.raises(BudgetExceededError):
        call_blocking(own)


@pytest.mark.parametrize("observed", ["acme", "acme/research"])
def test_an_account_that_is_observed_keeps_the_limits_around_it(observed: str) -> None:
    ledger = open_ledger("memory:")
    above = BudgetAccount(parse_limits("1 calls"), ledger, "acme")
    below = BudgetAccount((), ledger, observed, enforcement="observe")
    call_blocking(above, below)
    for accounts in ((above, below), (below, above)):
        with pytest.raises(BudgetExceededError):
            call_blocking(*accounts)
    assert used(above, "calls") == (1, 0)


def test_a_blocking_call_waits_for_what_another_holds() -> None:
    account = an_account("1 calls", wait=60)
    first = BudgetedCall([account], a_request())
    first.begin_blocking()
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(call_blocking(account)))
    thread.start()
    first.fail_blocking(RefusedError())
    thread.join()
    assert seen
    assert used(account, "calls") == (1, 0)


def test_an_awaited_call_waits_for_what_another_holds() -> None:
    async def main() -> None:
        account = an_account("1 calls", wait=60)
        first = BudgetedCall([account], a_request())
        await first.begin()
        second = asyncio.create_task(call_async(account))
        await is_waiting(account)
        await first.fail(RefusedError())
        await second
        assert used(account, "calls") == (1, 0)

    asyncio.run(main())


async def is_waiting(account: BudgetAccount) -> None:
    while room_of(account.ledger).waiting != 1:  # noqa: ASYNC110 - the queue has no event
        await asyncio.sleep(0)


def test_a_cancelled_admission_holds_nothing() -> None:
    async def main() -> None:
        account = an_account("1 calls", wait=60)
        first = BudgetedCall([account], a_request())
        await first.begin()
        second = asyncio.create_task(call_async(account))
        await is_waiting(account)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first.fail(RefusedError())
        assert used(account, "calls") == (0, 0)

    asyncio.run(main())


def test_threads_and_tasks_draw_on_one_file(tmp_path: Any) -> None:
    url = f"sqlite:{tmp_path / 'budget.db'}"
    account = BudgetAccount(parse_limits("2 calls"), url, "acme")
    call_blocking(account)
    asyncio.run(call_async(account))
    with pytest.raises(BudgetExceededError):
        call_blocking(BudgetAccount((), url, "acme"))
    account.ledger.close()


def test_an_asyncio_ledger_serves_awaited_calls_only(tmp_path: Any) -> None:
    ledger = open_async_ledger(f"sqlite:{tmp_path / 'budget.db'}")

    async def main() -> None:
        await ledger.set_limits("acme", parse_limits("2 calls"))
        account = BudgetAccount((), ledger, "acme")
        await call_async(account)
        with pytest.raises(ValueError, match="a ledger that blocks"):
            call_blocking(account)
        with pytest.raises(ValueError, match="set_limits"):
            BudgetAccount(parse_limits("2 calls"), ledger, "acme")
        await ledger.close()

    asyncio.run(main())


def test_a_blocking_call_works_inside_an_event_loop(tmp_path: Any) -> None:
    ledger = SqliteLedger(tmp_path / "budget.db")
    account = BudgetAccount(parse_limits("100 tokens"), ledger, "acme", ttl=1)

    async def main() -> None:
        call_blocking(account)

    asyncio.run(main())
    assert used(account) == (15, 0)
    ledger.close()


def test_a_call_settles_in_another_task_than_it_began() -> None:
    async def main() -> None:
        account = an_account("100 tokens")
        call = BudgetedCall([account], a_request())
        await asyncio.create_task(call.begin())
        await asyncio.create_task(call.end(an_answer()))
        assert used(account) == (15, 0)

    asyncio.run(main())

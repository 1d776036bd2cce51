"""One call of a tool: what it claims, when it is refused, and how it is settled."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.outbox import finish
from budget_core.ledger.waiting import room_of
from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, open_ledger
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import call_blocking, used


def an_account(text: str, **options: Any) -> BudgetAccount:
    return BudgetAccount(parse_limits(text), **options)


def use(name: str, *accounts: BudgetAccount) -> None:
    with BudgetedToolCall(accounts, name):
        pass


async def use_async(name: str, *accounts: BudgetAccount) -> None:
    async with BudgetedToolCall(accounts, name):
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_call_claims_one_of_all_tools_one_of_its_own_and_its_price(kind: str) -> None:
    account = an_account("$1 + 9 tool_calls + 3 tool:search", tool_prices={"search": "0.25"})
    for name in ("search", "read"):
        if kind == "blocking":
            use(name, account)
        else:
            asyncio.run(use_async(name, account))
    assert used(account, "tool_calls") == (2, 0)
    assert used(account, "search") == (1, 0)
    assert used(account, "nano_usd") == (250_000_000, 0)
    assert used(account, "calls") == (0, 0)


def test_a_call_is_held_while_its_tool_runs() -> None:
    account = an_account("9 tool_calls")
    with BudgetedToolCall([account], "search"):
        assert used(account, "tool_calls") == (0, 1)


@pytest.mark.parametrize(
    ("limits", "axis"),
    [("1 tool_calls", "tool_calls"), ("1 tool:search", "search"), ("$0.4", "nano")],
)
def test_a_refused_call_costs_nothing(limits: str, axis: str) -> None:
    account = an_account(limits, tool_prices={"search": "0.25"})
    use("search", account)
    before = [(row.spent, row.held) for row in account.balance()]
    with pytest.raises(BudgetExceededError, match=axis if axis != "nano" else r"\$0.15"):
        use("search", account)
    assert [(row.spent, row.held) for row in account.balance()] == before


def test_other_tools_go_on_where_one_is_used_up() -> None:
    account = an_account("1 tool:search")
    use("search", account)
    use("read", account)
    assert used(account, "tool_calls") == (2, 0)


def test_a_refusal_gives_back_what_outer_accounts_held() -> None:
    outer, inner = (
        an_account("5 tool_calls", account="outer"),
        an_account("0 tool:search", account="inner"),
    )
    with pytest.raises(BudgetExceededError, match="inner"):
        use("search", outer, inner)
    assert used(outer, "tool_calls") == (0, 0)


def test_a_tool_that_raises_counts_also_where_a_budget_refused_something_inside() -> None:
    account = an_account("5 tool_calls + 0 calls")
    with pytest.raises(BudgetExceededError), BudgetedToolCall([account], "research"):
        call_blocking(account)
    assert used(account, "tool_calls") == (1, 0)


def test_a_tool_that_was_not_run_is_given_back() -> None:
    account = an_account("1 tool_calls")
    call = BudgetedToolCall([account], "search")
    call.begin_blocking()
    finish(call.release())
    call.end_blocking()
    assert used(account, "tool_calls") == (0, 0)


def test_a_call_is_settled_once() -> None:
    account = an_account("9 tool_calls")
    call = BudgetedToolCall([account], "search")
    call.begin_blocking()
    call.end_blocking()
    finish(call.release())
    call.abandon()
    assert used(account, "tool_calls") == (1, 0)


def test_a_generator_that_is_left_keeps_its_hold() -> None:
    account = an_account("9 tool_calls")

    async def pages() -> Any:
        async with BudgetedToolCall([account], "search"):
            yield 1
            yield 2

    async def main() -> None:
        running = pages()
        await anext(running)
        await running.aclose()

    asyncio.run(main())
    assert sum(used(account, "tool_calls")) == 1


def test_calls_side_by_side_cannot_use_the_same_rest() -> None:
    account = an_account("3 tool:search")

    async def main() -> list[Any]:
        calls = [use_async("search", account) for _ in range(10)]
        return await asyncio.gather(*calls, return_exceptions=True)

    refused = [error for error in asyncio.run(main()) if error is not None]
    assert len(refused) == 7
    assert used(account, "search") == (3, 0)


def test_a_blocking_call_waits_for_what_another_holds() -> None:
    account = an_account("1 tool:search", wait=60)
    first = BudgetedToolCall([account], "search")
    first.begin_blocking()
    thread = threading.Thread(target=use, args=("search", account))
    thread.start()
    finish(first.release())
    thread.join()
    assert used(account, "search") == (1, 0)


def test_a_call_that_waits_can_be_cancelled_and_holds_nothing() -> None:
    account = an_account("1 tool:search", wait=60)

    async def main() -> None:
        first = BudgetedToolCall([account], "search")
        await first.begin()
        second = asyncio.create_task(use_async("search", account))
        while room_of(account.ledger).waiting != 1:  # noqa: ASYNC110 - the queue has no event
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first.release()
        await use_async("search", account)

    asyncio.run(main())
    assert used(account, "search") == (1, 0)


def test_a_cancelled_tool_counts() -> None:
    account = an_account("9 tool_calls")

    async def main() -> None:
        async with BudgetedToolCall([account], "search"):
            await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(main())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert used(account, "tool_calls") == (1, 0)


@pytest.mark.parametrize("enforcement", ["warn", "observe"])
def test_what_is_only_watched_is_counted_past_its_limit(enforcement: str) -> None:
    seen: list[Any] = []
    account = an_account(
        "1 tool:search",
        enforcement=enforcement,
        on_limit_reached=lambda **figures: seen.append(figures),
    )
    for _ in range(3):
        use("search", account)
    assert used(account, "search") == (3, 0)
    assert [figures["unit"] for figures in seen] == ["search"]


@pytest.mark.parametrize("enforcement", ["cutoff", "observe"])
def test_where_the_ledger_is_out_of_reach_limits_still_hold(enforcement: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        account = BudgetAccount((), url, "acme", enforcement=enforcement)
        if enforcement == "observe":
            use("search", account)
        else:
            with pytest.raises(LedgerUnavailableError):
                use("search", account)
            with pytest.raises(LedgerUnavailableError):
                asyncio.run(use_async("search", account))


def test_a_ledger_on_disk_counts_for_threads_and_tasks(tmp_path: Any) -> None:
    account = BudgetAccount(
        parse_limits("2 tool:search"), f"sqlite:{tmp_path / 'budget.db'}", "acme"
    )
    use("search", account)
    asyncio.run(use_async("search", account))
    with pytest.raises(BudgetExceededError):
        asyncio.run(use_async("search", account))
    account.ledger.close()


def test_a_limit_that_is_set_later_holds() -> None:
    ledger = open_ledger("memory:")
    account = BudgetAccount(parse_limits("9 tool_calls"), ledger, "acme/agent")
    use("search", account)
    ledger.set_limits("acme", parse_limits("1 tool:search"))
    use("search", account)
    with pytest.raises(BudgetExceededError, match="acme has 0 of 1 search"):
        use("search", account)


def test_a_tool_named_like_an_axis_draws_on_its_calls_alone() -> None:
    account = an_account("1 calls + 9 tool_calls")
    use("calls", account)
    use("nano_usd", account)
    assert used(account, "calls") == (0, 0)
    assert used(account, "nano_usd") == (0, 0)
    assert used(account, "tool_calls") == (2, 0)


def test_a_passed_deadline_admits_no_tool() -> None:
    with budget("0 s + 9 tool_calls") as block, pytest.raises(DeadlineExceeded):
        use("search")
    assert block.spent["tool_calls"] == 0


def test_blocks_count_tools_too_unless_it_draws_alone() -> None:
    own = an_account("9 tool_calls", account="own")
    with budget("9 tool_calls") as block:
        use("search", own)
        with BudgetedToolCall([own], "search", alone=True):
            pass
    assert block.spent["tool_calls"] == 1
    assert used(own, "tool_calls") == (2, 0)


def test_the_model_is_told_before_its_tool_calls_are_used_up() -> None:
    account = an_account("4 tool_calls", warning_thresholds=(0.5,))
    assert call_blocking(account).notices == ()
    use("search", account)
    use("read", account)
    (notice,) = call_blocking(account).notices
    assert "50% of your agent budget is used (2 of 4 tool_calls)" in notice


def test_one_tool_that_is_used_up_takes_no_other_away() -> None:
    account = an_account(
        "1 tool:search + 4 calls", tool_strip_threshold=0.9, warning_thresholds=(0.5,)
    )
    use("search", account)
    tools = [{"name": "search", "native": 1}, {"name": "read", "native": 2}]
    admitted = [call_blocking(account, tools=tools) for _ in range(3)]
    assert [one.tools for one in admitted] == [tools] * 3
    assert "50% of your agent budget is used (2 of 4 calls)" in admitted[2].notices[0]


def test_tools_are_withdrawn_when_tool_calls_come_to_their_end() -> None:
    account = an_account("2 tool_calls", tool_strip_threshold=1)
    tools = [{"name": "search", "native": 1}]
    assert call_blocking(account, tools=tools).tools == tools
    use("search", account)
    use("search", account)
    last = call_blocking(account, tools=tools)
    assert last.tools is None
    assert "(2 of 2 tool_calls). Tools are disabled for this answer" in last.notices[0]


@pytest.mark.parametrize("prices", [{"search": -1}, {"search": "a cent"}, "0.5"])
def test_malformed_prices_are_refused(prices: Any) -> None:
    with pytest.raises(ValueError, match=r"search|tool_prices"):
        an_account("$1", tool_prices=prices)


def test_the_model_reads_which_tool_was_refused_and_why() -> None:
    account = an_account("0 tool:search")
    with pytest.raises(BudgetExceededError) as refused:
        use("search", account)
    text = refusal_text("search", refused.value)
    assert "The tool search was not called: agent has 0 of 0 search per run left" in text

"""Tools of MCP on a budget, by the client and by the server, in sessions of the real package."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import Client, ClientSession, ClientSessionGroup, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import CallToolResult, InputRequiredResult

from budget_core.ledger.waiting import room_of
from budget_cpython import Deadline, budget, budgeted, open_ledger
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.frameworks.mcp import ToolBudgetMiddleware
from budget_cpython.adapters.tools import BudgetedToolCall
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import run_example

SERVER = StdioServerParameters(command=sys.executable, args=["-m", "tests.adapters.mcp_server"])


class Words:
    """A server with its tools' calls, and what ended one that waits."""

    def __init__(self, *middleware: ToolBudgetMiddleware) -> None:
        self.server = MCPServer("words", middleware=middleware)
        self.calls: list[str] = []
        self.stopped = asyncio.Event()
        self.begun = asyncio.Event()
        for tool in (self.count, self.wait, self.ask, self.fail, self.free):
            self.server.tool()(tool)

    def count(self, text: str) -> int:
        self.calls.append("count")
        return len(text.split())

    def free(self) -> None:
        self.calls.append("free")

    def fail(self) -> None:
        self.calls.append("fail")
        raise ValueError("it is broken")

    async def wait(self) -> None:
        self.calls.append("wait")
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()

    async def ask(self, context: Context[Any]) -> str | InputRequiredResult:
        self.calls.append("ask")
        if context.request_state is None:
            return InputRequiredResult(request_state="once more")
        return "done"


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in an event loop of its own."""

    def run() -> None:
        asyncio.run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def text_of(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    return str(getattr(result.content[0], "text", result))


def spent(ledger: Any, account: str) -> dict[str, int]:
    return {row.axis: row.spent + row.held for row in ledger.balance(account)}


@pytest.mark.feature("refusal", "retries")
@in_loop
async def test_a_refused_call_is_an_error_that_the_model_sees_and_is_not_sent() -> None:
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "9 tool_calls + 1 tool:count")
        assert text_of(await client.call_tool("count", {"text": "one two"})) == "2"
        refused = await client.call_tool("count", {"text": "three"})
    assert refused.is_error
    assert "The tool count was not called: agent has 0 of 1 count" in text_of(refused)
    assert words.calls == ["count"]


@in_loop
async def test_a_tool_s_price_counts_as_money() -> None:
    ledger = open_ledger("memory:")
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(
            plain, "$0.25", ledger=ledger, account="acme", tool_prices={"count": "0.1"}
        )
        results = [await client.call_tool("count", {"text": "one"}) for _ in range(3)]
        await client.call_tool("free")
    assert [result.is_error for result in results] == [False, False, True]
    assert words.calls == ["count", "count", "free"]
    assert spent(ledger, "acme") == {"nano_usd": 200_000_000}


@in_loop
async def test_a_client_keeps_its_type_and_its_connection() -> None:
    words = Words()
    async with budgeted(Client(words.server), "1 tool:count") as client:
        assert isinstance(client, Client)
        assert isinstance(client.session, ClientSession)
        assert type(client).__name__ == "Client"
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"count", "wait"}
        await client.session.call_tool("count", {"text": "one"})
        assert (await client.call_tool("count", {"text": "one"})).is_error
    assert words.calls == ["count"]


@in_loop
async def test_the_session_of_a_client_on_a_budget_counts_once_on_another_one() -> None:
    ledger = open_ledger("memory:")
    async with budgeted(
        Client(Words().server), "9 tool:count", ledger=ledger, account="acme"
    ) as client:
        session = budgeted(client.session, ledger=ledger, account="acme")
        await session.call_tool("count", {"text": "one"})
    assert spent(ledger, "acme") == {"count": 1}


@in_loop
async def test_the_client_that_was_given_stays_without_a_budget() -> None:
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "0 tool_calls")
        assert (await client.call_tool("count", {"text": "one"})).is_error
        assert not (await plain.call_tool("count", {"text": "one"})).is_error


@in_loop
async def test_budgets_round_a_client_add_up_and_a_block_counts_once() -> None:
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(budgeted(plain, "9 tool_calls"), "1 tool:count/day", account="inner")
        with budget("9 tool_calls") as block:
            await client.call_tool("count", {"text": "one"})
            assert "inner has 0" in text_of(await client.call_tool("count", {"text": "one"}))
    assert block.spent["tool_calls"] == 1


@pytest.mark.feature("child agents")
@in_loop
async def test_agents_inside_a_block_draw_on_it_with_their_sessions() -> None:
    words = Words()

    async def child(client: Client) -> bool:
        return bool((await client.call_tool("count", {"text": "one"})).is_error)

    async with Client(words.server) as one, Client(words.server) as two:
        with budget("1 tool:count"):
            clients = [budgeted(one), budgeted(two)]
            refused = [await asyncio.create_task(child(client)) for client in clients]
    assert refused == [False, True]


@pytest.mark.feature("parallel tools")
@in_loop
async def test_calls_side_by_side_do_not_exceed_the_budget() -> None:
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "3 tool:count")
        calls = [client.call_tool("count", {"text": "one"}) for _ in range(10)]
        results = await asyncio.gather(*calls)
    assert sum(result.is_error for result in results) == 7
    assert words.calls == ["count"] * 3


@pytest.mark.feature("wait")
@in_loop
async def test_a_call_waits_for_what_another_holds() -> None:
    ledger = open_ledger("memory:")
    other = BudgetAccount(parse_limits("1 tool:count"), ledger, "acme")
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, ledger=ledger, account="acme", wait=60)
        held = BudgetedToolCall([other], "count")
        await held.begin()
        call = asyncio.create_task(client.call_tool("count", {"text": "one"}))
        while room_of(ledger).waiting != 1:  # noqa: ASYNC110 - the queue has no event
            await asyncio.sleep(0)
        await held.release()
        assert not (await call).is_error


@pytest.mark.feature("abort")
@in_loop
async def test_a_cancelled_call_counts_and_stops_the_tool() -> None:
    ledger = open_ledger("memory:")
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "9 tool_calls", ledger=ledger, account="acme")
        call = asyncio.create_task(client.call_tool("wait"))
        await words.begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await words.stopped.wait()
    assert spent(ledger, "acme") == {"tool_calls": 1}


@pytest.mark.feature("deadline")
@in_loop
async def test_a_call_ends_at_the_deadline_and_so_does_the_tool() -> None:
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "9 tool_calls")
        with budget("0.05 s"):
            stopped = await client.call_tool("wait")
            late = await client.call_tool("count", {"text": "one"})
        await words.stopped.wait()
    assert "The tool wait was stopped: the deadline has passed" in text_of(stopped)
    assert "The tool count was not called: the deadline has passed" in text_of(late)
    assert stopped.is_error
    assert words.calls == ["wait"]


@in_loop
async def test_a_call_that_goes_back_and_forth_counts_once() -> None:
    ledger = open_ledger("memory:")
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "9 tool_calls", ledger=ledger, account="acme")
        assert text_of(await client.call_tool("ask")) == "done"
    assert words.calls == ["ask", "ask"]
    assert spent(ledger, "acme") == {"tool_calls": 1}


@in_loop
async def test_a_tool_that_fails_counts() -> None:
    ledger = open_ledger("memory:")
    words = Words()
    async with Client(words.server) as plain:
        client = budgeted(plain, "9 tool_calls", ledger=ledger, account="acme")
        assert (await client.call_tool("fail")).is_error
    assert spent(ledger, "acme") == {"tool_calls": 1}


@pytest.mark.feature("refusal")
@in_loop
async def test_a_server_limits_its_tools_for_every_client() -> None:
    ledger = open_ledger("memory:")
    words = Words(
        ToolBudgetMiddleware(
            "1 tool:count + $1", ledger=ledger, account="srv", tool_prices={"count": "0.01"}
        )
    )
    async with Client(words.server) as one, Client(words.server) as two:
        assert not (await one.call_tool("count", {"text": "one"})).is_error
        refused = await two.call_tool("count", {"text": "one"})
        assert len((await two.list_tools()).tools) == 5
    assert "The tool count was not called: srv has 0 of 1 count" in text_of(refused)
    assert words.calls == ["count"]
    assert spent(ledger, "srv") == {"count": 1, "nano_usd": 10_000_000}


@in_loop
async def test_a_server_counts_each_part_of_a_call() -> None:
    ledger = open_ledger("memory:")
    words = Words(ToolBudgetMiddleware("1 tool:ask", ledger=ledger, account="srv"))
    async with Client(words.server) as client:
        assert (await client.call_tool("ask")).is_error
    assert words.calls == ["ask"]


@in_loop
async def test_a_block_of_a_client_in_the_same_process_counts_its_call_once() -> None:
    words = Words(ToolBudgetMiddleware("9 tool_calls/day", account="srv"))
    with budget("9 tool_calls") as block:
        async with Client(words.server) as plain:
            await budgeted(plain).call_tool("count", {"text": "one"})
    assert block.spent["tool_calls"] == 1


@pytest.mark.parametrize("limits", ["20 calls", "5 tool:count + 1k tokens", "$0.03"])
def test_limits_that_no_tool_counts_are_refused(limits: str) -> None:
    for limited in (ToolBudgetMiddleware, partial(budgeted, Words().server)):
        with pytest.raises(ValueError, match=r"did you mean 'tool_calls'|give tool_prices="):
            limited(limits)


@in_loop
async def test_budgeted_gives_a_server_its_middleware() -> None:
    words = Words()
    assert budgeted(words.server, "0 tool:count") is words.server
    async with Client(words.server) as client:
        assert (await client.call_tool("count", {"text": "one"})).is_error


@in_loop
async def test_sessions_and_groups_of_sessions_on_stdio_are_budgeted() -> None:
    async with AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(stdio_client(SERVER))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        client = budgeted(session, "1 tool:count")
        assert text_of(await client.call_tool("count", {"text": "one two"})) == "2"
        assert "agent has 0" in text_of(await client.call_tool("count", {"text": "one"}))
        assert not (await session.call_tool("count", {"text": "one"})).is_error
        by_server = await session.call_tool("count", {"text": "one"})
        assert "server has 0 of 2 count" in text_of(by_server)


@in_loop
async def test_a_group_of_sessions_is_budgeted() -> None:
    async with ClientSessionGroup() as group:
        await group.connect_to_server(SERVER)
        client = budgeted(group, "1 tool:count")
        assert isinstance(client, ClientSessionGroup)
        assert not (await client.call_tool(name="count", arguments={"text": "one"})).is_error
        assert (await client.call_tool("count", {"text": "one"})).is_error


def test_the_example_runs() -> None:
    printed = run_example("with_mcp.py")
    assert "error: [Budget] The tool search was not called: agent has $0.01 of $0.05" in printed
    assert "used:  3 of 10 tool calls, 7 left" in printed


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "budget_cpython.adapters.frameworks.mcp", raising=False)
    with pytest.raises(ImportError, match=r"microbudget\[mcp\]"):
        import_module("budget_cpython.adapters.frameworks.mcp")


def test_what_has_no_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="ClientSession"):
        budgeted(SERVER, "1 tool_calls")


@in_loop
async def test_a_deadline_around_it_is_the_block_s_too() -> None:
    words = Words()
    async with Client(words.server) as plain:
        with Deadline.from_now(0).as_current():
            assert (await budgeted(plain).call_tool("count", {"text": "one"})).is_error
    assert words.calls == []

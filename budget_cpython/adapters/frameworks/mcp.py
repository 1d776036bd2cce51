"""Budgets round the tools of MCP: a client's calls of them, and a server's own."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Unpack

try:
    import mcp
    from mcp.server import Server, ServerRequestContext
    from mcp.server.mcpserver import MCPServer
    from mcp.types import CallToolResult, TextContent
except ImportError as error:
    raise ImportError("mcp, 2.0 or newer, is missing: pip install 'microbudget[mcp]'") from error

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.object_proxy import budgeted_kind, twin_of, with_state_of
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.context.deadline import Deadline


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a client like the one given, or the server itself, with its tools on a budget.

    `what` is a `Client`, `ClientSession` or `ClientSessionGroup`, or a server. A client that is
    returned is of the same type and shares its connection with the one given, whose calls stay
    without a budget. A server gets a middleware.
    """
    if isinstance(what, (MCPServer, Server)):
        what.middleware.append(ToolBudgetMiddleware.of(accounts))
        return what
    if isinstance(what, mcp.Client):
        return twin_of(what, accounts, _client_kind)
    if isinstance(what, (mcp.ClientSession, mcp.ClientSessionGroup)):
        return twin_of(what, accounts, _session_kind)
    raise ValueError(
        "budgeted takes a Client, ClientSession, ClientSessionGroup, MCPServer or Server of mcp, "
        f"not {what!r}"
    )


class ToolBudgetMiddleware:
    """A middleware for `MCPServer(middleware=[…])` that limits the tools of a server.

    Each call draws on `account`, for whichever client it comes from: on `tool_calls`, on an axis
    with the tool's name, and its price from `tool_prices`. A refused call is answered with an error
    result that the model sees, and the tool does not run. `limits`, `ledger`, `account` and
    `options` are those of `budgeted`. `with` blocks around the server's code do not count: they
    belong to its clients.
    """

    def __init__(
        self,
        limits: str | None = None,
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        caller = Caller("mcp-server", models=False)
        self._accounts = accounts_of(limits, ledger, account, caller, **options)

    @classmethod
    def of(cls, accounts: Accounts) -> "ToolBudgetMiddleware":
        """Return a middleware that draws on accounts."""
        made = cls()
        made._accounts = accounts
        return made

    async def __call__(
        self,
        ctx: ServerRequestContext[Any, Any],
        call_next: Callable[[ServerRequestContext[Any, Any]], Awaitable[Any]],
    ) -> Any:
        """Answer a message of a client; one that calls a tool is counted, each part of it."""
        name = (ctx.params or {}).get("name")
        if ctx.method != "tools/call" or not isinstance(name, str):
            return await call_next(ctx)
        return await _within(
            BudgetedToolCall(self._accounts, name, alone=True), lambda: call_next(ctx)
        )


def _client_kind(kind: Any, accounts: Accounts) -> Any:
    of_session = budgeted_kind(mcp.ClientSession, accounts, _session_kind)

    class BudgetedMcpClient(kind):  # type: ignore[misc]
        @property
        def session(self) -> mcp.ClientSession:  # which its calls pass
            found: mcp.ClientSession = with_state_of(super().session, of_session)
            return found

    return BudgetedMcpClient


def _session_kind(kind: Any, accounts: Accounts) -> Any:
    class BudgetedMcpSession(kind):  # type: ignore[misc]
        async def call_tool(self, name: str, *given: Any, **options: Any) -> Any:
            call = super().call_tool
            if any(options.get(part) is not None for part in ("request_state", "input_responses")):
                return await call(name, *given, **options)  # its first part was counted
            return await _within(
                BudgetedToolCall(accounts, name), lambda: call(name, *given, **options)
            )

    return BudgetedMcpSession


async def _within(call: BudgetedToolCall, run: Callable[[], Awaitable[Any]]) -> Any:
    """Run a tool within its budget and the deadline; return a result that says where it was not."""
    try:
        await call.begin()
    except BudgetError as error:
        return _as_error(refusal_text(call.name, error))
    deadline = Deadline.current()
    try:
        async with nullcontext() if deadline.is_never() else deadline.scope():
            return await run()
    except DeadlineExceeded as error:
        return _as_error(f"[Budget] The tool {call.name} was stopped: {error}.")
    except GeneratorExit:
        call.abandon()
        raise
    finally:
        await call.end()


def _as_error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)

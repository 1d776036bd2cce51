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
from budget_cpython.adapters.layer import Layer, Options
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.deadline import Deadline
from budget_cpython.ledger.limit_parser import parse_limits


def budgeted(what: Any, layers: tuple[Layer, ...]) -> Any:
    """Return a client like the one given, or the server itself, with its tools on a budget.

    `what` is a `Client`, `ClientSession` or `ClientSessionGroup`, or a server. A client that is
    returned is of the same type and shares its connection with the one given, whose calls stay
    without a budget. A server gets a middleware.
    """
    if isinstance(what, (MCPServer, Server)):
        what.middleware.append(ToolBudget.of_layers(layers))
        return what
    if isinstance(what, (mcp.Client, mcp.ClientSession, mcp.ClientSessionGroup)):
        return _twin(what, layers)
    raise ValueError(
        "budgeted takes a Client, ClientSession, ClientSessionGroup, MCPServer or Server of mcp, "
        f"not {what!r}"
    )


class ToolBudget:
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
        found = [] if limits is None else parse_limits(limits)
        self._layers: tuple[Layer, ...] = (Layer(found, ledger, account, **options),)

    @classmethod
    def of_layers(cls, layers: tuple[Layer, ...]) -> "ToolBudget":
        """Return a middleware that draws on layers."""
        made = object.__new__(cls)
        made._layers = layers
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
            BudgetedToolCall(self._layers, name, alone=True), lambda: call_next(ctx)
        )


def _twin(what: Any, layers: tuple[Layer, ...]) -> Any:
    """Return an object of a subclass that has the very state of the one given."""
    kind, own = getattr(type(what), "_budgeted", (type(what), ()))
    layers = (*own, *layers)
    if issubclass(kind, mcp.Client):  # its calls pass its session
        return _with_state_of(what, _client_kind(kind, layers))
    return _with_state_of(what, _session_kind(kind, layers))


def _with_state_of(what: Any, kind: Any) -> Any:
    twin = object.__new__(kind)
    twin.__dict__ = what.__dict__
    return twin


def _client_kind(kind: Any, layers: tuple[Layer, ...]) -> Any:
    of_session = _session_kind(mcp.ClientSession, layers)

    class Budgeted(kind):  # type: ignore[misc]
        _budgeted = (kind, layers)

        @property
        def session(self) -> mcp.ClientSession:
            found: mcp.ClientSession = _with_state_of(super().session, of_session)
            return found

    return _named_like(kind, Budgeted)


def _session_kind(kind: Any, layers: tuple[Layer, ...]) -> Any:
    class Budgeted(kind):  # type: ignore[misc]
        _budgeted = (kind, layers)

        async def call_tool(self, name: str, *given: Any, **options: Any) -> Any:
            call = super().call_tool
            if any(options.get(part) is not None for part in ("request_state", "input_responses")):
                return await call(name, *given, **options)  # its first part was counted
            return await _within(
                BudgetedToolCall(layers, name), lambda: call(name, *given, **options)
            )

    return _named_like(kind, Budgeted)


def _named_like(kind: Any, budgeted_kind: Any) -> Any:
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(budgeted_kind, name, getattr(kind, name))
    return budgeted_kind


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

"""A budget for LangChain's agents, as a middleware; `budgeted` takes the chat models themselves."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Unpack

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import AIMessage, ToolMessage
except ImportError as error:
    raise ImportError("LangChain's agents need: pip install 'microbudget[langchain]'") from error

from budget_core.errors import DeadlineExceeded
from budget_core.ledger.errors import BudgetExceededError
from budget_cpython.adapters.account import Options
from budget_cpython.adapters.current import inside
from budget_cpython.adapters.frameworks.langchain.model import budgeted
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.context.deadline import Deadline

__all__ = ["BudgetMiddleware", "budgeted"]

_ENDS = (BudgetExceededError, DeadlineExceeded)


class BudgetMiddleware(AgentMiddleware):  # type: ignore[misc]
    """A budget for an agent that `create_agent` makes, and for the agents that its tools run.

    `limits`, `ledger`, `account` and `options` are those of `budgeted`; without any of them the
    agent draws on the `with` blocks around it. Put it last in `middleware`, so that it sees
    each call that others retry, and the model that others choose.

    At the end of the budget, or of the current deadline, the agent ends: its last message, from
    the assistant, says why, and its state keeps what was done. A tool that the budget refuses
    answers the model with an error. With `exit_behavior="error"` both raise
    `BudgetExceededError` or `DeadlineExceeded`. Other errors of the budget are always raised.
    """

    def __init__(
        self,
        limits: str | None = None,
        *,
        ledger: Any = None,
        account: str | None = None,
        exit_behavior: Literal["end", "error"] = "end",
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        if exit_behavior not in ("end", "error"):
            raise ValueError(f"exit_behavior must be 'end' or 'error', not {exit_behavior!r}")
        self._ends = exit_behavior == "end"
        self._accounts = accounts_of(limits, ledger, account, Caller("langchain"), **options)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Make a call of the model within the budget."""
        try:
            return handler(request.override(model=budgeted(request.model, self._accounts)))
        except _ENDS as error:
            return self._last_message(error)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Make a call of the model within the budget."""
        try:
            return await handler(request.override(model=budgeted(request.model, self._accounts)))
        except _ENDS as error:
            return self._last_message(error)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a tool within the budget; what it calls draws on the budget, too."""
        try:
            with (
                BudgetedToolCall(self._accounts, request.tool_call["name"]),
                inside(self._accounts),
            ):
                return handler(request)
        except _ENDS as error:
            return self._tool_message(request.tool_call, error)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run a tool within the budget until the deadline; what it calls draws on it, too."""
        try:
            call = BudgetedToolCall(self._accounts, request.tool_call["name"])
            async with call, Deadline.current().scope():
                with inside(self._accounts):
                    return await handler(request)
        except _ENDS as error:
            return self._tool_message(request.tool_call, error)

    def _last_message(self, error: Exception) -> Any:
        if not self._ends:
            raise error
        reason = "deadline" if isinstance(error, DeadlineExceeded) else "budget"
        text = f"[Budget exhausted] {error}."
        return AIMessage(text, response_metadata={"finish_reason": reason})

    def _tool_message(self, call: Any, error: Exception) -> Any:
        if not self._ends:
            raise error
        text = refusal_text(call["name"], error)
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error")

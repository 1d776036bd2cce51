"""Put a budget round openai-agents: a model, a model provider, or an agent with its tools."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from copy import copy
from importlib import import_module
from typing import Any, Unpack

try:
    from agents import Agent, FunctionTool, Handoff, Model, ModelProvider, MultiProvider
    from agents.tool_guardrails import (
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
    )
except ImportError as error:
    raise ImportError("openai-agents needs: pip install 'microbudget[openai-agents]'") from error
from agents import Model
from agents.exceptions import AgentsException

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.current import inside
from budget_cpython.adapters.http.instrumented import counted
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.provider_errors import budget_error
from budget_cpython.adapters.settling import pieces_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.context.deadline import Deadline

_SEEN = {"OpenAIChatCompletionsModel", "OpenAIResponsesModel", "NamedModel"}


class AgentBudgetError(AgentsException):  # type: ignore[misc]
    """A run ended because its budget refused a model call; `__cause__` is the budget's error.

    `run_data` has what the run had done by then.
    """


def provider_of(provider: Any, accounts: Accounts) -> Any:
    """Return a copy of a provider, whose models have the budget."""
    made, find = copy(provider), provider.get_model
    made.get_model = lambda model_name: model_of(find(model_name), accounts)
    return made


def model_of(model: Any, accounts: Accounts) -> Any:
    """Return a copy of a model, whose calls draw on the accounts.

    Raises `ValueError` for a model whose calls no budget sees.
    """
    made = copy(_checked(model))
    calls = _ModelCalls(made, accounts)
    made.get_response = calls.get_response
    made.stream_response = calls.stream_response
    made.get_retry_advice = calls.get_retry_advice
    made.has_budget = True
    return made


def _checked(model: Any) -> Any:
    """Return a model whose calls are seen as those of an HTTP client, or of LiteLLM."""
    names = {kind.__name__ for kind in type(model).__mro__}
    if "LitellmModel" in names:
        import_module("budget_cpython.adapters.frameworks.litellm").count_functions()
    elif "OpenAIResponsesWSModel" in names or not names & _SEEN:
        raise ValueError(
            f"{type(model).__name__} cannot be budgeted: its calls are not those of OpenAI's HTTP "
            "client or of LiteLLM; use a model whose calls are, or budget its own HTTP client"
        )
    return model


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise the framework's error in place of one that has the budget's behind it."""
    before = sys.exception()
    try:
        yield
    except Exception as error:
        found = budget_error(error, before)
        if found is None:
            raise
        raise AgentBudgetError(str(found)) from found


class _ModelCalls:
    """The methods of a budgeted model, in place of its own."""

    def __init__(self, model: Any, accounts: Accounts) -> None:
        self._get, self._stream = model.get_response, model.stream_response
        self._advice = getattr(model, "get_retry_advice", None)
        self._accounts = accounts

    async def get_response(self, *given: Any, **named: Any) -> Any:
        """Make a call within the budget."""
        with _refusals(), counted(self._accounts):
            async with Deadline.current().scope():
                return await self._get(*given, **named)

    async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        """Make a call within the budget, whose answer comes in pieces."""
        with _refusals(), counted(self._accounts):
            pieces = pieces_of(nullcontext, self._stream(*given, **named))
            async with aclosing(pieces) as events:
                async for event in events:
                    yield event

    def get_retry_advice(self, request: Any) -> Any:
        """Say that a refusal is not to be tried again; the model advises on all other errors."""
        if not isinstance(request.error, AgentBudgetError):
            return None if self._advice is None else self._advice(request)
        retry: Any = import_module("agents.retry")  # which the lowest version has not
        final = retry.ModelRetryNormalizedError(is_abort=True)
        return retry.ModelRetryAdvice(suggested=False, reason="budget", normalized=final)


class NamedModel(Model):  # type: ignore[misc]
    """A model that a provider finds by its name with the first call."""

    def __init__(self, name: str | None, find: Callable[[str | None], Any]) -> None:
        self._wanted = name
        self._find = find
        self._found: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.found, name)

    async def get_response(self, *given: Any, **named: Any) -> Any:
        """Answer as the model does."""
        return await self.found.get_response(*given, **named)

    def stream_response(self, *given: Any, **named: Any) -> Any:
        """Answer as the model does."""
        return self.found.stream_response(*given, **named)

    def get_retry_advice(self, request: Any) -> Any:
        """Advise as the model does."""
        return self.found.get_retry_advice(request)

    @property
    def found(self) -> Any:
        """The model itself."""
        if self._found is None:
            self._found = _checked(self._find(self._wanted))
        return self._found


__all__ = ["AgentBudgetError", "ToolBudgetGuardrail", "budgeted"]


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a model, a provider or an agent of the same type, whose calls draw on the accounts.

    An agent's tools draw on them as well, and so do the agents that it hands off to. Raises
    `ValueError` for anything else, for a model whose calls no budget sees, and for an agent with
    another one behind a tool that has no budget.
    """
    if isinstance(what, ModelProvider):
        return provider_of(what, accounts)
    if isinstance(what, Model):
        return model_of(what, accounts)
    if isinstance(what, Agent):
        return _Agents(accounts).budgeted(what)
    raise ValueError(
        "budgeted takes a Model, a ModelProvider or an Agent of openai-agents, not "
        f"{type(what).__name__}"
    )


def caller_of(what: Any) -> Caller:
    """Return an object's `Caller`: a model or a provider calls no tools."""
    return Caller("openai-agents", tools=not isinstance(what, (Model, ModelProvider)))


class ToolBudgetGuardrail(ToolInputGuardrail[Any]):  # type: ignore[misc]
    """A guardrail for a tool's `tool_input_guardrails`, which counts its calls.

    At the tool's limit, such as `"5 tool:search"` or `"20 tool_calls"`, and after the current
    deadline the model reads that it was not called. The arguments are those of `budgeted`; without
    any it draws on the `with` blocks around it.
    """

    def __init__(
        self,
        limits: str | None = None,
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        caller = Caller("openai-agents-tools", models=False)
        self._accounts = accounts_of(limits, ledger, account, caller, **options)
        super().__init__(guardrail_function=self._admit, name="budget")

    @classmethod
    def of(cls, accounts: Accounts) -> "ToolBudgetGuardrail":
        """Return the guardrail of tools that draw on accounts."""
        made = cls()
        made._accounts = accounts
        return made

    async def _admit(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        name = data.context.tool_name
        try:
            async with BudgetedToolCall(self._accounts, name):
                return ToolGuardrailFunctionOutput.allow()
        except BudgetError as error:
            return ToolGuardrailFunctionOutput.reject_content(refusal_text(name, error), error)


class _Agents:
    """Puts one budget round agents: the first, and those that it hands off to."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._made: dict[int, tuple[Any, Any]] = {}  # by the id of the first, which is kept
        self._guardrail = ToolBudgetGuardrail.of(accounts)

    def budgeted(self, agent: Any) -> Any:
        """Return a copy of an agent; agents that hand off to each other stay connected."""
        if id(agent) in self._made:
            return self._made[id(agent)][1]
        made: Any = copy(agent)
        self._made[id(agent)] = agent, made
        made.model = self._model_of(agent)
        made.tools = [self._tool(tool) for tool in agent.tools]
        made.handoffs = [self._handoff(one) for one in agent.handoffs]
        return made

    def _model_of(self, agent: Any) -> Any:
        if isinstance(agent.model, Model):
            return model_of(agent.model, self._accounts)
        return model_of(NamedModel(agent.model, MultiProvider().get_model), self._accounts)

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            return tool
        behind = getattr(tool, "_agent_instance", None)  # as_tool leaves it there since 0.7
        if behind is not None and not hasattr(behind.model, "has_budget"):
            raise ValueError(
                f"the agent behind the tool {tool.name} has no budget: make the tool from "
                f"budgeted({behind.name}), which without limits draws on this one"
            )
        made = copy(tool)
        made.tool_input_guardrails = [*(tool.tool_input_guardrails or ()), self._guardrail]
        if not callable(getattr(tool, "needs_approval", None)):
            # a rule of approval checks what the SDK's own function does with the arguments
            made.on_invoke_tool = self._inside(made.on_invoke_tool)
        return made

    def _inside(self, invoke: Any) -> Any:
        """Return a function that runs a tool until the deadline; its calls draw on the budget."""

        async def invoke_inside(context: Any, arguments: str) -> Any:
            try:
                with inside(self._accounts):
                    async with Deadline.current().scope():
                        return await invoke(context, arguments)
            except DeadlineExceeded as error:
                raise AgentBudgetError(str(error)) from error

        return invoke_inside

    def _handoff(self, one: Any) -> Any:
        if not isinstance(one, Handoff):
            return self.budgeted(one)
        made, hand_off = copy(one), one.on_invoke_handoff

        async def hand_off_to(context: Any, arguments: str) -> Any:
            return self.budgeted(await hand_off(context, arguments))

        made.on_invoke_handoff = hand_off_to
        return made

"""Put a budget round openai-agents: a model, a model provider, or an agent with its tools."""

from copy import copy
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

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.current import inside
from budget_cpython.adapters.openai_agents_model import (
    AgentBudgetError,
    NamedModel,
    model_of,
    provider_of,
)
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.deadline import Deadline

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

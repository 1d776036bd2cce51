"""Put a budget round pydantic-ai: its models, and the tools of its agents."""

from copy import copy
from typing import Any, Unpack

try:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model
    from pydantic_ai.models.fallback import FallbackModel
except ImportError as error:
    raise ImportError("pydantic-ai needs: pip install 'microbudget[pydantic-ai]'") from error

from budget_core.errors import BudgetError
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.current import inside
from budget_cpython.adapters.frameworks.pydantic_ai.model import BudgetedModel, refusals
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.context.deadline import Deadline

__all__ = ["BudgetedModel", "ToolBudgetCapability", "budgeted"]


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a model whose requests draw on the accounts.

    Of a `FallbackModel` each model does. Raises `ValueError` for anything else.
    """
    if isinstance(what, FallbackModel):
        made = copy(what)
        made.models = [budgeted(model, accounts) for model in what.models]
        return made
    if isinstance(what, Model):
        return BudgetedModel.of(what, accounts)
    raise ValueError(
        f"budgeted takes a Model of pydantic-ai, not {type(what).__name__}: give an agent "
        "Agent(budgeted(model, '$5/day'), capabilities=[ToolBudgetCapability('5 tool:search')])"
    )


class ToolBudgetCapability(AbstractCapability[Any]):  # type: ignore[misc]
    """A budget for the tools of an agent, and for what they call; give it as a capability.

    `limits` and the other arguments are those of `budgeted`, or `limits` is a budgeted model, whose
    budget the tools then share; without any, they draw on the `with` blocks around the run.

    At a limit, such as `"5 tool:search"` or `"20 tool_calls"`, and after the current deadline a
    tool is not run, and the model reads why. At the deadline the tools that run are cancelled, and
    the run ends with `UsageLimitExceeded`.
    """

    def __init__(
        self,
        limits: str | BudgetedModel | None = None,
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        if isinstance(limits, BudgetedModel):
            self._accounts = limits.accounts
        else:
            caller = Caller("pydantic-ai-tools")
            self._accounts = accounts_of(limits, ledger, account, caller, **options)

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Run a tool within the budget."""
        claim = BudgetedToolCall(self._accounts, call.tool_name)
        try:
            await claim.begin()
        except BudgetError as error:
            return refusal_text(call.tool_name, error)
        try:
            with inside(self._accounts), refusals():
                async with Deadline.current().scope():
                    return await handler(args)
        finally:
            await claim.end()

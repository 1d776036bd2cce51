"""Put a budget round a model of openai-agents, or round the provider that finds models by name.

A call draws on the budget by its HTTP client, or by LiteLLM: nothing here reads its arguments.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from copy import copy
from importlib import import_module
from typing import Any

from agents import Model
from agents.exceptions import AgentsException

from budget_cpython.adapters.account import Accounts
from budget_cpython.adapters.instrumented import counted
from budget_cpython.adapters.provider_errors import budget_error
from budget_cpython.adapters.settling import pieces_of
from budget_cpython.deadline import Deadline

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
        import_module("budget_cpython.adapters.litellm").count_functions()
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

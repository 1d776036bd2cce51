"""Put a budget round a model of openai-agents, or round the provider that finds models by name."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from copy import copy
from importlib import import_module
from typing import Any

from agents import Model
from agents.exceptions import AgentsException

from budget_core.errors import BudgetError
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.openai_agents_request import (
    Asked,
    answer_of,
    asked_of,
    count,
    request_of,
    to_send,
)
from budget_cpython.adapters.settling import answering, pieces_of, settled

Layers = tuple[Layer, ...]


class AgentBudgetError(AgentsException):  # type: ignore[misc]
    """A run ended because its budget refused a model call; `__cause__` is the budget's error.

    `run_data` has what the run had done by then.
    """


def provider_of(provider: Any, layers: Layers) -> Any:
    """Return a copy of a provider, whose models have the budget."""
    made, find = copy(provider), provider.get_model

    def get_model(model_name: str | None) -> Any:
        return model_of(find(model_name), layers, find)

    made.get_model = get_model
    return made


def model_of(model: Any, layers: Layers, find: Callable[[str], Any] | None = None) -> Any:
    """Return a copy of a model, whose calls draw on the layers; `find` finds a fallback by name."""
    made = copy(model)
    calls = _Calls(made, layers, find or (lambda name: _renamed(model, name)))
    made.get_response = calls.get_response
    made.stream_response = calls.stream_response
    made.get_retry_advice = calls.get_retry_advice
    made.has_budget = True
    return made


def _renamed(model: Any, name: str) -> Any:
    if not isinstance(getattr(model, "model", None), str):
        raise ValueError(
            f"{type(model).__name__} has no name to change to the fallback {name!r}: budget the "
            "ModelProvider instead"
        )
    found = copy(model)
    found.model = name
    return found


class _Calls:
    """What a budgeted model does in place of its methods."""

    def __init__(self, model: Any, layers: Layers, find: Callable[[str], Any]) -> None:
        self._model = model
        self._get, self._stream = model.get_response, model.stream_response
        self._advice = getattr(model, "get_retry_advice", None)
        self._layers = layers
        self._find = find

    async def get_response(self, *given: Any, **named: Any) -> Any:
        """Make a call within the budget."""
        asked = asked_of(*given, **named)
        call = BudgetedCall(self._layers, request_of(self._name(), asked, stream=False))
        try:
            model, asked = self._to_send(asked, call, await call.begin())
            get = self._get if model is self._model else model.get_response
            given, named = asked.options()
            async with answering(call):
                response = await get(*given, **named)
        except BudgetError as error:
            raise AgentBudgetError(str(error)) from error
        await call.end(answer_of(response))
        return response

    async def stream_response(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
        """Make a call within the budget, whose answer comes in pieces."""
        asked = asked_of(*given, **named)
        call = BudgetedCall(self._layers, request_of(self._name(), asked, stream=True))
        try:
            model, asked = self._to_send(asked, call, await call.begin())
            stream = self._stream if model is self._model else model.stream_response
            given, named = asked.options()
            pieces = pieces_of(call, stream(*given, **named))
            async with settled(call), aclosing(pieces) as events:
                async for event in events:
                    answer = count(call, event)
                    if answer is not None:
                        await call.end(answer)  # the rest may never be asked for
                    yield event
        except BudgetError as error:
            raise AgentBudgetError(str(error)) from error
        call.abandon()  # where no event ended the answer

    def get_retry_advice(self, request: Any) -> Any:
        """Say that a refusal is not to be tried again; the model advises on all other errors."""
        if not isinstance(request.error, AgentBudgetError):
            return None if self._advice is None else self._advice(request)
        retry: Any = import_module("agents.retry")  # which the lowest version has not
        final = retry.ModelRetryNormalizedError(is_abort=True)
        return retry.ModelRetryAdvice(suggested=False, reason="budget", normalized=final)

    def _name(self) -> Any:
        return getattr(self._model, "model", None)

    def _to_send(self, asked: Asked, call: BudgetedCall, admitted: Any) -> tuple[Any, Asked]:
        model = self._model
        if admitted.model != call.request.model:
            model = self._find(admitted.model)
        found = getattr(model, "found", model)
        return model, to_send(found, asked, call.request, admitted)


class NamedModel(Model):  # type: ignore[misc]
    """A model that the SDK's own provider finds by its name with the first call."""

    def __init__(self, name: str | None, find: Callable[[str | None], Any]) -> None:
        self._wanted = name
        self._find = find
        self._found: Any = None

    @property
    def model(self) -> Any:
        """The model's name."""
        return getattr(self.found, "model", self._wanted)

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
            self._found = self._find(self._wanted)
        return self._found

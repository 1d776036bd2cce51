"""Put a budget round a pydantic-ai model."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import Any, Unpack

from pydantic_ai.exceptions import UsageLimitExceeded, UserError
from pydantic_ai.models.wrapper import WrapperModel

from budget_core.errors import BudgetError
from budget_core.provider import ChatResponse
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.frameworks.pydantic_ai.request import (
    RequestArguments,
    answer_of,
    count,
    report,
    request_of,
    to_send,
)
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.settling import answering, pieces_of, settled
from budget_cpython.context.deadline import Deadline
from budget_cpython.vendors.format import ending


@contextmanager
def refusals() -> Iterator[None]:
    """Raise the framework's error in place of the budget's, which is its cause."""
    try:
        yield
    except BudgetError as error:
        raise UsageLimitExceeded(str(error)) from error


class BudgetedModel(WrapperModel):  # type: ignore[misc]
    """A model whose requests draw on a budget; `budgeted` makes one of a model.

    `wrapped` is a model, or the name of one as `Agent` takes it; the other arguments are those of
    `budgeted`. A refused request, and one that the deadline ends, raises `UsageLimitExceeded`,
    whose `__cause__` is the budget's error.
    """

    def __init__(
        self,
        wrapped: Any,
        limits: str | None = None,
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(wrapped)
        self.accounts = accounts_of(limits, ledger, account, Caller("pydantic-ai"), **options)

    @classmethod
    def of(cls, wrapped: Any, accounts: Accounts) -> "BudgetedModel":
        """Return a model whose requests draw on accounts."""
        made = cls(wrapped)
        made.accounts = accounts
        return made

    async def request(
        self, messages: list[Any], model_settings: Any, model_request_parameters: Any
    ) -> Any:
        """Make a request within the budget."""
        asked = RequestArguments(messages, model_settings, model_request_parameters)
        call = BudgetedCall(self.accounts, request_of(self.wrapped, asked))
        with refusals():
            model, asked = self._to_send(asked, call, await call.begin())
            async with answering(call):
                response = await model.request(asked.messages, asked.settings, asked.parameters)
        await call.end(answer_of(response))
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[Any],
        model_settings: Any,
        model_request_parameters: Any,
        run_context: Any = None,
    ) -> AsyncIterator[Any]:
        """Make a request within the budget, whose answer comes in pieces."""
        asked = RequestArguments(messages, model_settings, model_request_parameters)
        call = BudgetedCall(self.accounts, request_of(self.wrapped, asked, stream=True))
        with refusals():
            model, asked = self._to_send(asked, call, await call.begin())
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(settled(call))
            given = (asked.messages, asked.settings, asked.parameters, run_context)
            with refusals():
                async with Deadline.current().scope():
                    with call.answering():
                        response = await stack.enter_async_context(model.request_stream(*given))
            response._get_event_iterator = _counted(call, response, response._get_event_iterator)
            yield response
        call.abandon()  # where it was left before its end

    async def compact_messages(self, request_context: Any, *, instructions: Any = None) -> Any:
        """Have the model shorten a conversation within the budget."""
        asked = RequestArguments(
            request_context.messages,
            request_context.model_settings,
            request_context.model_request_parameters,
        )
        call = BudgetedCall(self.accounts, request_of(self.wrapped, asked))
        with refusals():
            await call.begin()
            async with answering(call):
                compact = self.wrapped.compact_messages
                response = await compact(request_context, instructions=instructions)
        await call.end(answer_of(response))
        return response

    async def batch_create(self, requests: Any) -> Any:
        """Refuse a batch: what it costs is known only when it has ended.

        Raises `UserError`.
        """
        raise UserError("a budget has no batches: use the model itself for them")

    def _to_send(
        self, asked: RequestArguments, call: BudgetedCall, admitted: Any
    ) -> tuple[Any, RequestArguments]:
        model = self.wrapped
        if admitted.model != call.request.model:
            model = _renamed(model, admitted.model)
        return model, to_send(self.wrapped, asked, call.request, admitted)


def _counted(call: BudgetedCall, response: Any, events_of: Callable[[], Any]) -> Callable[[], Any]:
    """Return an iterator over a response's events, which ends the call with the last one."""

    async def events() -> AsyncGenerator[Any, None]:
        with refusals():
            async with aclosing(pieces_of(call.answering, events_of())) as found:
                async for event in found:
                    count(call, event)
                    call.report = report(response.usage) or None
                    yield event
        ended = ending(getattr(response, "finish_reason", None))
        await call.end(ChatResponse("", finish_reason=ended, usage=report(response.usage)))

    return events


def _renamed(model: Any, name: str) -> Any:
    """Return a model of the same class and provider with another name."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if model.provider is None:
        raise UserError(
            f"{type(model).__name__} has no provider for the fallback {name!r}: use a "
            "FallbackModel of budgeted models"
        )
    return type(model)(name, provider=model.provider, settings=model.settings)

"""Put a budget round a LangChain chat model: a model of the same type, whose calls draw on it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from functools import lru_cache
from typing import Any

try:
    from langchain_core.language_models import BaseChatModel
except ImportError as error:
    raise ImportError("LangChain needs: pip install 'microbudget[langchain]'") from error
from pydantic import PrivateAttr

from budget_core.provider import ChatResponse
from budget_cpython.adapters.account import Accounts
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.frameworks.langchain.request import (
    answer_of,
    count,
    request_of,
    to_send,
)
from budget_cpython.adapters.settling import (
    answering,
    answering_blocking,
    pieces_blocking,
    pieces_of,
    settled,
    settled_blocking,
)


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a chat model of the same type, whose calls draw on the accounts.

    Raises `ValueError` for what is not a chat model.
    """
    if not isinstance(what, BaseChatModel):
        raise ValueError(
            f"budgeted takes a LangChain chat model, not {type(what).__name__}: budget the model "
            "before it is bound or chained; for an agent, give create_agent a BudgetMiddleware"
        )
    model = what.model_copy()
    object.__setattr__(model, "__class__", _class_of(_kind(what)))
    outer = getattr(what, "_budget_accounts", ())
    private = {**(model.__pydantic_private__ or {}), "_budget_accounts": (*outer, *accounts)}
    object.__setattr__(model, "__pydantic_private__", private)
    return model


def _kind(model: Any) -> type:
    """Return the class of a model without a budget."""
    kind = type(model)
    return getattr(kind, "_unbudgeted_kind", None) or kind


@lru_cache(maxsize=64)
def _class_of(kind: Any) -> type:
    """Return the class whose instances are a chat model's, with budgets round what answers.

    Only what the model itself has is replaced: LangChain asks whether a class can stream.
    """
    body: dict[str, Any] = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__annotations__": {"_budget_accounts": tuple},
        "_budget_accounts": PrivateAttr(default=()),
        "_generate": _whole(kind),
        "_agenerate": _awaited(kind),
    }
    if kind._stream is not BaseChatModel._stream:
        body["_stream"] = _streamed(kind)
    if kind._astream is not BaseChatModel._astream:
        body["_astream"] = _streamed_async(kind)
    for native in ("_stream_chat_model_events", "_astream_chat_model_events"):
        if getattr(kind, native, None) is not None:
            body[native] = None  # LangChain then makes the events from the streams above
    made: type = type(kind)(kind.__name__, (kind,), body)
    type.__setattr__(made, "_unbudgeted_kind", kind)
    return made


def _whole(kind: Any) -> Any:
    def _generate(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Any:
        call = BudgetedCall(self._budget_accounts, request_of(self, messages, options))
        sent, messages, options = to_send(self, messages, options, call, call.begin_blocking())
        with answering_blocking(call):
            result = kind._generate(sent, messages, stop, run_manager, **options)
        call.end_blocking(answer_of(result))
        return result

    return _generate


def _awaited(kind: Any) -> Any:
    async def _agenerate(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Any:
        call = BudgetedCall(self._budget_accounts, request_of(self, messages, options))
        sent, messages, options = to_send(self, messages, options, call, await call.begin())
        async with answering(call):
            result = await kind._agenerate(sent, messages, stop, run_manager, **options)
        await call.end(answer_of(result))
        return result

    return _agenerate


def _streamed(kind: Any) -> Any:
    def _stream(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[Any]:
        call = BudgetedCall(self._budget_accounts, request_of(self, messages, options, stream=True))
        sent, messages, options = to_send(self, messages, options, call, call.begin_blocking())
        usage, pieces = None, kind._stream(sent, messages, stop, run_manager, **options)
        with settled_blocking(call), closing(pieces_blocking(call.answering, pieces)) as chunks:
            for chunk in chunks:
                usage = count(call, usage, chunk)
                yield chunk
        call.end_blocking(ChatResponse(""))

    return _stream


def _streamed_async(kind: Any) -> Any:
    async def _astream(
        self: Any, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        call = BudgetedCall(self._budget_accounts, request_of(self, messages, options, stream=True))
        sent, messages, options = to_send(self, messages, options, call, await call.begin())
        usage, pieces = None, kind._astream(sent, messages, stop, run_manager, **options)
        async with settled(call), aclosing(pieces_of(call.answering, pieces)) as chunks:
            async for chunk in chunks:
                usage = count(call, usage, chunk)
                yield chunk
        await call.end(ChatResponse(""))

    return _astream

"""One attempt of a call of LiteLLM within a budget, and the stream that it may return."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from inspect import iscoroutinefunction
from typing import Any, Final

import litellm
from litellm.exceptions import BudgetExceededError as LitellmExceededError
from litellm.exceptions import Timeout

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.ledger.errors import BudgetExceededError
from budget_core.provider import ChatResponse, maybe_await
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.blocking_call import BlockingCall, answering_either
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.object_proxy import ObjectProxy
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import pieces_of, settled, settled_blocking
from budget_cpython.vendors.answers import answered, model_in
from budget_cpython.vendors.format import WireFormat, as_list
from budget_cpython.vendors.openai import ChatCompletions, Completions, Embeddings, Responses
from budget_cpython.vendors.request import Admitted, LlmRequest

Json = dict[str, Any]

_OF_BOTH: Final[dict[str, type[WireFormat]]] = {
    "completion": ChatCompletions,
    "text_completion": Completions,
    "embedding": Embeddings,
    "responses": Responses,
}
FORMATS: Final = {kind + name: form for name, form in _OF_BOTH.items() for kind in ("", "a")}
ORIGINALS: Final = {name: getattr(litellm, name) for name in FORMATS}
_COMPARED: Final = ("model", "tools", "prompt", "input", "instructions", "previous_response_id")
_NO_RETRY: Final = 402  # a status for which LiteLLM's router makes no further attempt


async def attempt(accounts: Sequence[BudgetAccount], name: str, body: Json) -> Any:
    """Make one call of a function of LiteLLM, an awaited one until the deadline.

    `body` has its arguments by name. Nothing waits for a function that blocks.
    """
    form, call = _begin(accounts, name, body)
    try:
        admitted = await call.begin()
        async with answering_either(call):
            to_send = _to_send(form, body, admitted, call.request)
            answer = await maybe_await(ORIGINALS[name](**to_send))
    except BudgetError as error:
        raise as_litellm(error, call.request.model) from error
    if call.request.stream:
        return _Stream(answer, call, form.stream_reader(call.request))
    if _is_cached(answer):
        await call.fail(UnbilledError("the answer came from a cache"))
    else:
        await call.end(_answer_of(form, answer))
    return answer


def as_litellm(error: BudgetError, model: str) -> Exception:
    """Return LiteLLM's own error for a refusal, if it has one."""
    found: Any = error
    if isinstance(error, BudgetExceededError):
        unit = 1e9 if error.axis == "nano_usd" else 1
        spent, limit = (error.spent + error.held) / unit, error.limit / unit
        found = LitellmExceededError(spent, limit, str(error))
    elif isinstance(error, DeadlineExceeded):
        found = Timeout(str(error), model, "")
    found.status_code = _NO_RETRY
    return found  # type: ignore[no-any-return]


class _Stream(ObjectProxy):
    """Stands in for a stream of LiteLLM, and counts its pieces."""

    def __init__(self, inner: Any, call: BudgetedCall, reader: Any) -> None:
        super().__init__(inner, {})
        self.__dict__.update(_call=call, _reader=reader)
        self.__dict__.update(_pieces=self._read(), _awaited=self._read_async())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._pieces)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._awaited)

    def close(self) -> None:
        """Leave the stream: what came of it counts, and its hold."""
        self._pieces.close()

    async def aclose(self) -> None:
        """Leave the stream, as `close` does."""
        await self._awaited.aclose()

    def _read(self) -> Iterator[Any]:
        call = self._call
        with settled_blocking(call):
            for piece in self._inner:
                if self._takes(piece):
                    yield piece
        call.end_blocking(self._answer())

    async def _read_async(self) -> AsyncIterator[Any]:
        call = self._call
        try:
            async with settled(call), aclosing(pieces_of(call.answering, self._inner)) as pieces:
                async for piece in pieces:
                    if self._takes(piece):
                        yield piece
        except DeadlineExceeded as error:
            raise as_litellm(error, call.request.model) from error
        await call.end(self._answer())

    def _answer(self) -> ChatResponse:
        reader = self._reader
        return answered("", reader.ending, None, reader.model, reader.service_tier)

    def _takes(self, piece: Any) -> bool:
        """Count a piece; return whether the caller asked for it."""
        event = _as_json(piece)
        self._reader.model = model_in(event) or self._reader.model
        text, passed = self._reader.take(event)
        self._call.on_text(text)
        self._call.report = self._reader.report
        return bool(passed)


def _begin(
    accounts: Sequence[BudgetAccount], name: str, body: Json
) -> tuple[WireFormat, BudgetedCall]:
    form = FORMATS[name]("")
    asked = [_as_json(one) for one in as_list(body.get("messages"))]
    request = form.read({**body, "messages": asked} if asked else body)
    request.vendor = None  # the model's name begins with its vendor
    request.identity = [asked, *(body.get(field) for field in _COMPARED)]
    make = BudgetedCall if iscoroutinefunction(ORIGINALS[name]) else BlockingCall
    return form, make(accounts, request)


def _to_send(form: WireFormat, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
    form.check(admitted, request)
    new = form.write(body, admitted, request)
    if "max_completion_tokens" in new and "max_completion_tokens" not in body:
        new["max_tokens"] = new.pop("max_completion_tokens")  # LiteLLM's name for every vendor
    return new


def _answer_of(form: WireFormat, answer: Any) -> ChatResponse:
    """Return an answer; LiteLLM writes zeros where its provider reports no usage."""
    body = _as_json(answer)
    if not (body.get("usage") or {}).get("total_tokens"):
        body = {**body, "usage": None}
    return form.answer(body)


def _is_cached(answer: Any) -> bool:
    return (getattr(answer, "_hidden_params", None) or {}).get("cache_hit") is True


def _as_json(answer: Any) -> Json:
    found: Json = answer.model_dump(warnings=False) if hasattr(answer, "model_dump") else answer
    return found

"""OpenAI's embeddings."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_cpython.adapters.request import Admitted, Request
from budget_cpython.adapters.wire.format import Json, as_dict
from budget_cpython.adapters.wire.openai_chat import prompts_in
from budget_cpython.adapters.wire.openai_format import OpenAIFormat
from budget_cpython.adapters.wire.readers import StreamReader
from budget_cpython.adapters.wire.refusals import TooLittleLeftError


class Embeddings(OpenAIFormat):
    """`POST …/embeddings`: no answer in words, so no notices and no limit."""

    def read(self, body: Json) -> Request:
        """Return the request that a body makes."""
        messages = [{"role": "user", "content": text} for text in prompts_in(body.get("input"))]
        model, answerers = self.model_of(body), self.answerers_of(body)
        return Request(model, messages, max_tokens=0, answerers=answerers)

    def write(self, body: Json, admitted: Admitted, request: Request) -> Json:
        """Return the body itself: there is nothing in it that a budget changes."""
        return body

    def check(self, admitted: Admitted, request: Request) -> None:
        """Raise `TooLittleLeftError` for a fallback: another model's embeddings do not compare."""
        if admitted.model != request.model:
            raise TooLittleLeftError(
                f"the budget allows no embeddings of {request.model}, and those of the fallback "
                f"{admitted.model} do not compare with them"
            )

    def answer(self, body: Any) -> ChatResponse:
        """Return the usage of embeddings."""
        return ChatResponse("", usage=as_dict(as_dict(body).get("usage")))

    def stream_reader(self, asked: Json) -> StreamReader:
        """Return what passes on a stream, which embeddings do not have."""
        return _Unread()


class _Unread(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Read nothing."""
        return "", True

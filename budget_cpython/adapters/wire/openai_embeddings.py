"""OpenAI's embeddings."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.wire.format import Json, as_dict
from budget_cpython.adapters.wire.openai_chat import prompt_messages
from budget_cpython.adapters.wire.openai_format import OpenAIFormat
from budget_cpython.adapters.wire.readers import StreamReader
from budget_cpython.adapters.wire.refusals import TooLittleLeftError


class Embeddings(OpenAIFormat):
    """`POST …/embeddings`: no answer in words, so no notices and no limit."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        model, candidates = self.model_of(body), self.candidates_of(body)
        messages = prompt_messages(body.get("input"))
        return LlmRequest(model, messages, max_tokens=0, candidates=candidates)

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body itself: there is nothing in it that a budget changes."""
        return body

    def check(self, admitted: Admitted, request: LlmRequest) -> None:
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
        """Return a reader that passes a stream on; embeddings have none."""
        return _Unread()


class _Unread(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Read nothing."""
        return "", True

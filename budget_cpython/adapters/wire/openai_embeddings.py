"""OpenAI's embeddings."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_cpython.adapters.request import Admitted, Request
from budget_cpython.adapters.wire.format import Json, WireFormat, as_dict
from budget_cpython.adapters.wire.openai_chat import prompts_in
from budget_cpython.adapters.wire.openai_paths import model_of, path_with
from budget_cpython.adapters.wire.readers import StreamReader


class Embeddings(WireFormat):
    """`POST …/embeddings`: no answer in words, so no notices and no limit."""

    def read(self, body: Json) -> Request:
        """Return what a request's body asks for."""
        messages = [{"role": "user", "content": text} for text in prompts_in(body.get("input"))]
        return Request(model_of(self.path, body), messages, max_tokens=0)

    def write(self, body: Json, admitted: Admitted, request: Request) -> Json:
        """Return the body to send instead."""
        return {**body, "model": admitted.model} if admitted.model != request.model else dict(body)

    def path_for(self, model: str) -> str:
        """Return the path, with Azure's deployment named like the model."""
        return path_with(self.path, model)

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

"""The model of the test of many calls, behind OpenAI's clients too: what peers wrap or patch."""

import json
import time
from collections.abc import Coroutine
from typing import Any

import httpx2
import openai

from budget_cpython import ChatResponse
from tests.ledger.many_calls import Provider

NAME = "gpt-4o"
_LATENCY = 0.003  # seconds, three times a call, where a thread waits for its answer
_WHERE: dict[str, Any] = {
    "api_key": "any",
    "base_url": "http://model.invalid/v1",
    "max_retries": 0,
}


class Model(Provider):
    """The model of the test of many calls, which also knows which calls it has answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: set[int] = set()

    async def chat(
        self, messages: list[dict[str, Any]], max_tokens: int | None = None, **more: Any
    ) -> ChatResponse:
        """Answer, and remember it."""
        self.answered.add(int(messages[0]["content"]))
        return await super().chat(messages, max_tokens, **more)

    def waiting_client(self) -> openai.AsyncOpenAI:
        """Return OpenAI's client for event loops, whose requests come here."""

        async def answer(request: httpx2.Request) -> httpx2.Response:
            return _reply(await self._asked(request))

        http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        return openai.AsyncOpenAI(http_client=http, **_WHERE)

    def blocking_client(self) -> openai.OpenAI:
        """Return OpenAI's client for threads, whose requests come here."""

        def answer(request: httpx2.Request) -> httpx2.Response:
            return _reply(awaited(self._asked(request)))

        http = httpx2.Client(transport=httpx2.MockTransport(answer))
        return openai.OpenAI(http_client=http, **_WHERE)

    def client(self, threads: bool) -> Any:
        """Return the client for threads or for event loops."""
        return self.blocking_client() if threads else self.waiting_client()

    def _asked(self, request: httpx2.Request) -> Coroutine[Any, Any, ChatResponse]:
        body = json.loads(request.content)
        bound = body.get("max_completion_tokens", body.get("max_tokens"))
        return self.chat(body["messages"], bound)


def awaited(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in this thread, which waits where an event loop goes round."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value
        time.sleep(_LATENCY)


def _reply(answer: ChatResponse) -> httpx2.Response:
    message = {"role": "assistant", "content": answer.content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "1", "object": "chat.completion", "created": 1, "model": NAME}
    return httpx2.Response(200, json={**head, "choices": [choice], "usage": answer.usage})

"""Talk to an OpenAI-compatible chat endpoint, from a chip or a server."""

import asyncio
import json

from budget_core.chat.completion import parse_answer
from budget_core.chat.http import HttpEndpoint, HttpExchange
from budget_core.checks import check_count, check_text
from budget_core.errors import ProviderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    from budget_core._types import Messages, Tools
    from budget_core.provider import ChatResponse


class ChatClient:
    """A provider that speaks the chat-completions protocol over HTTP or HTTPS.

    - `timeout_s`: bounds every wait for the network, up to a day.
    - `max_response_bytes`: bounds every answer, its head included.
    - `tls`: a context for https, by default `tls_context()`.
    - `retries`: how often a request is repeated that did not arrive, or was refused with 408, 409,
      429 or 5xx; each time after `Retry-After`, or longer than the time before.
    - `limit_name`: the name under which `max_tokens` is sent. It becomes `max_completion_tokens`
      once a model refuses `max_tokens`.
    - `sleep`: waits between attempts, by default `asyncio.sleep`.

    `attempts` counts the requests of all calls. The API key is in no message, log or repr.
    """

    supports_response_deltas = True
    supports_left_s = True

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        timeout_s: float = 60,
        max_response_bytes: int = 262_144,
        tls: "Any" = None,
        retries: int = 2,
        limit_name: str = "max_tokens",
        sleep: "Callable[[float], Awaitable[Any]]" = asyncio.sleep,
    ) -> None:
        self.base_url = check_text("base_url", base_url)
        self.model: str = check_text("model", model)
        self.retries = check_count("retries", retries)
        self.attempts = 0
        self.limit_name = check_text("limit_name", limit_name)
        self._sleep = sleep
        self._endpoint = HttpEndpoint(base_url, api_key, timeout_s, max_response_bytes, tls)
        self._key = api_key

    def __repr__(self) -> str:
        return f"ChatClient({self.base_url!r}, {self.model!r})"

    def get_default_model(self) -> str:
        """Return the model that answers where a call names none."""
        return self.model

    async def chat(
        self,
        messages: "Messages",
        tools: "Tools | None" = None,
        model: str | None = None,
        on_delta: "Callable[[str], Awaitable[None]] | None" = None,
        left_s: "Callable[[], float] | None" = None,
        **options: "Any",
    ) -> "ChatResponse":
        """Return the model's answer; with `on_delta`, stream its text there piece by piece.

        `options`, such as `max_tokens` and `temperature`, are sent under their names; those that
        are `None` are not sent. A wait for the next attempt is not begun where it takes longer than
        the seconds that `left_s()` returns. Raises `ProviderError` if the endpoint refuses, fails,
        breaks off, answers in another form, or cannot be reached, and its subclass
        `ContextWindowExceededError` if the prompt is too long for the model.
        """
        request = {name: value for name, value in options.items() if value is not None}
        request["model"] = model or self.model
        request["messages"] = list(messages)
        if tools is not None:
            request["tools"] = tools
        if on_delta is not None:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        attempts = 0
        while True:
            if "max_tokens" in request:
                request[self.limit_name] = request.pop("max_tokens")
            attempts += 1
            self.attempts += 1
            exchange = HttpExchange(self._endpoint)
            try:
                response = await self._answer(exchange, request, on_delta)
                response.attempts = attempts
                return response
            except ProviderError as error:
                failure = error
            finally:
                await exchange.close()
            from budget_core.chat.refusal import judge  # loaded for the first failure

            failure, wait = judge(self, failure, self._key, request, exchange.advice, attempts)
            if wait is None or (left_s is not None and wait >= left_s()):
                break
            if wait:
                from budget_core.log import log

                why = failure.status or "no answer"
                log("info", f"attempt {attempts} failed ({why}), the next follows in {wait:.1f} s")
                await self._sleep(wait)
        raise failure  # outside the handler: a chained error could show the key

    async def _answer(
        self,
        exchange: HttpExchange,
        request: "dict[str, Any]",
        on_delta: "Callable[[str], Awaitable[None]] | None",
    ) -> "ChatResponse":
        path = self._endpoint.path + "/chat/completions"
        await exchange.send("POST", path, lambda: json_of(request))
        if exchange.status != 200:
            from budget_core.chat.refusal import refusal

            raise refusal(exchange.status, await exchange.read_all())
        if on_delta is None:
            return parse_answer(await exchange.read_all())
        from budget_core.chat.stream import read_stream  # loaded for the first streamed answer

        return await read_stream(exchange, on_delta)


def json_of(request: "dict[str, Any]") -> "Iterator[bytes]":
    """Yield the JSON of a request piece by piece: all of it may be too much for a chip."""
    mark = "{"
    for name, value in request.items():
        yield f"{mark}{json.dumps(name)}:".encode()
        mark = ","
        if isinstance(value, (list, tuple)) and value:
            before = "["
            for each in value:
                yield (before + json.dumps(each)).encode()
                before = ","
            yield b"]"
        else:
            yield json.dumps(value).encode()
    yield b"}"

"""Talk to an OpenAI-compatible chat endpoint, from a chip or a server."""

import json

from budget_core.chat.completion import complaint, parse_answer
from budget_core.chat.http import HttpEndpoint, HttpExchange
from budget_core.errors import ProviderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core._types import Messages, Tools
    from budget_core.provider import ChatResponse

_MAX_MESSAGE = 300


class ChatClient:
    """A provider that speaks the chat-completions protocol over HTTP or HTTPS.

    `timeout_s` bounds every wait for the network, up to a day; `max_response_bytes` every answer,
    its head included. `tls` is a context for https, by default `tls_context()`. The API key is in
    no message, log or repr.
    """

    supports_response_deltas = True

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str | None = None,
        timeout_s: float = 60,
        max_response_bytes: int = 262_144,
        tls: "Any" = None,
    ) -> None:
        self.base_url = base_url
        self.model = model
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
        **options: "Any",
    ) -> "ChatResponse":
        """Return the model's answer; with `on_delta`, stream its text there piece by piece.

        `options`, such as `max_tokens` and `temperature`, are sent under their names; those that
        are `None` are not sent. Raises `ProviderError` if the endpoint refuses, fails, breaks off,
        answers in another form, or cannot be reached.
        """
        request = {name: value for name, value in options.items() if value is not None}
        request["model"] = model or self.model
        request["messages"] = messages
        if tools is not None:
            request["tools"] = tools
        if on_delta is not None:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        exchange = HttpExchange(self._endpoint)
        try:
            return await self._answer(exchange, json.dumps(request).encode(), on_delta)
        except ProviderError as error:
            message = error.message
            if self._key:
                message = message.replace(self._key, "[API key]")
            line = [char if char >= " " else " " for char in message[:_MAX_MESSAGE]]
            failure = ProviderError(error.status, "".join(line))
            failure.sent = error.sent
        finally:
            await exchange.close()
        raise failure  # outside the handler: a chained error could show the key

    async def _answer(
        self,
        exchange: HttpExchange,
        body: bytes,
        on_delta: "Callable[[str], Awaitable[None]] | None",
    ) -> "ChatResponse":
        await exchange.send("POST", self._endpoint.path + "/chat/completions", body)
        if exchange.status != 200:
            raise ProviderError(exchange.status, complaint(await exchange.read_all()))
        if on_delta is None:
            return parse_answer(await exchange.read_all())
        from budget_core.chat.stream import read_stream  # loaded for the first streamed answer

        return await read_stream(exchange, on_delta)

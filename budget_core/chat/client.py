"""Talk to an OpenAI-compatible chat endpoint, from a chip or a server."""

import json

from budget_core.chat.completion import complaint, parse_answer
from budget_core.chat.http import HttpExchange, split_url, tls_context
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
        secure = split_url(base_url)[0]
        if api_key is not None and not all("!" <= char <= "~" for char in api_key):
            raise ValueError(
                "api_key must be visible ASCII characters, without blanks or line ends"
            )
        if not 0 < timeout_s <= 86_400:
            raise ValueError(f"timeout_s must be above 0 and at most 86,400, not {timeout_s!r}")
        if max_response_bytes < 1:
            raise ValueError(f"max_response_bytes must be 1 or more, not {max_response_bytes!r}")
        self.base_url = base_url.rstrip("/")
        self.model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_bytes = max_response_bytes
        self._tls = tls_context() if secure and tls is None else tls

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
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning_effort: str | None = None,
        response_format: "Any" = None,
        on_delta: "Callable[[str], Awaitable[None]] | None" = None,
    ) -> "ChatResponse":
        """Return the model's answer; with `on_delta`, stream its text there piece by piece.

        Options that are `None` are not sent. Raises `ProviderError` if the endpoint refuses, fails,
        breaks off, answers in another form, or cannot be reached.
        """
        request: dict[str, Any] = {"model": model or self.model, "messages": messages}
        options = (
            ("tools", tools),
            ("max_tokens", max_tokens),
            ("temperature", temperature),
            ("reasoning_effort", reasoning_effort),
            ("response_format", response_format),
        )
        for name, value in options:
            if value is not None:
                request[name] = value
        if on_delta is not None:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        exchange = HttpExchange(self._timeout_s, self._max_bytes)
        try:
            return await self._answer(exchange, request, on_delta)
        except ProviderError as error:
            failure = ProviderError(error.status, self._presentable(error.message))
            failure.sent = error.sent
        finally:
            await exchange.close()
        raise failure  # outside the handler: a chained error could show the key

    async def _answer(
        self,
        exchange: HttpExchange,
        request: "dict[str, Any]",
        on_delta: "Callable[[str], Awaitable[None]] | None",
    ) -> "ChatResponse":
        headers = ["Content-Type: application/json"]
        if self._api_key:
            headers.append("Authorization: Bearer " + self._api_key)
        body = json.dumps(request).encode()
        target = split_url(self.base_url + "/chat/completions")
        await exchange.send("POST", target, headers, body, self._tls)
        if exchange.status != 200:
            raise ProviderError(exchange.status, complaint(await exchange.read_all()))
        if on_delta is None:
            return parse_answer(await exchange.read_all(), exchange.framed)
        from budget_core.chat.stream import read_stream  # loaded for the first streamed answer

        return await read_stream(exchange, on_delta)

    def _presentable(self, text: str) -> str:
        """Return the beginning of a message, on one line and without the key."""
        if self._api_key:
            text = text.replace(self._api_key, "[API key]")
        return "".join([char if char >= " " else " " for char in text[:_MAX_MESSAGE]])

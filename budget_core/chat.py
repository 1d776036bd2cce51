"""Talk to an OpenAI-compatible chat endpoint, from a chip or a server."""

import json

from budget_core.errors import ProviderError
from budget_core.http import HttpExchange, split_url
from budget_core.provider import ChatResponse, ToolCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


class ChatClient:
    """A provider that speaks the chat-completions protocol over HTTP or HTTPS.

    `timeout_s` bounds every wait for the network, `max_response_bytes` every answer. `tls` is an
    `SSLContext`; CPython's default verifies the server, a chip's does what its port can. The API
    key is in no message, log or repr.
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
        split_url(base_url)
        if api_key is not None and not all("!" <= char <= "~" for char in api_key):
            raise ValueError(
                "api_key must be visible ASCII characters, without blanks or line ends"
            )
        self.base_url = base_url.rstrip("/")
        self.model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_bytes = max_response_bytes
        self._tls = tls

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
    ) -> ChatResponse:
        """Return the model's answer; with `on_delta`, stream its text there piece by piece.

        What is `None` is not sent. Raises `ProviderError` where the endpoint refuses, fails, breaks
        off, answers something else, or cannot be reached.
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
            failure = ProviderError(error.status, self._without_key(error.message))
        finally:
            await exchange.close()
        raise failure  # out here, where no chained error repeats what the endpoint said of the key

    async def _answer(
        self,
        exchange: HttpExchange,
        request: "dict[str, Any]",
        on_delta: "Callable[[str], Awaitable[None]] | None",
    ) -> ChatResponse:
        headers = ["Content-Type: application/json"]
        if self._api_key:
            headers.append("Authorization: Bearer " + self._api_key)
        body = json.dumps(request).encode()
        await exchange.post(self.base_url + "/chat/completions", headers, body, self._tls)
        if exchange.status != 200:
            raise ProviderError(exchange.status, _complaint(await exchange.read_all()))
        if on_delta is None:
            return parse_answer(_load(await exchange.read_all()))
        from budget_core.stream import read_stream  # loaded for the first streamed answer

        return await read_stream(exchange, on_delta)

    def _without_key(self, text: str) -> str:
        return text.replace(self._api_key, "[API key]") if self._api_key else text


def parse_answer(data: "Any") -> ChatResponse:
    """Return the answer in a completion object; `ProviderError` where it is none."""
    try:
        choice = data["choices"][0]
        message = choice["message"]
        content = message.get("content")
        calls = [
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ProviderError(200, "the answer is not a chat completion")
    return make_answer(content, calls, choice.get("finish_reason"), data.get("usage"))


def make_answer(
    content: "Any", calls: "list[ToolCall]", finish_reason: "Any", usage: "Any"
) -> ChatResponse:
    """Return a response from the parts of an answer, each checked.

    `calls` come with their arguments as the model wrote them.
    """
    for call in calls:
        if not isinstance(call.id, str) or not isinstance(call.name, str):
            raise ProviderError(200, "the answer calls a tool without id or name")
        call.arguments = parse_object(call.arguments)
    if not isinstance(content, str):
        content = None
    if not isinstance(finish_reason, str):
        finish_reason = "tool_calls" if calls else "stop"
    return ChatResponse(content, calls, finish_reason, _lean(usage))


def parse_object(text: "Any") -> "dict[str, Any] | None":
    """Return the JSON object in `text`, or `None` where it holds anything else or only a part."""
    if not isinstance(text, str) or not _is_closed(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RuntimeError):
        return None
    return value if isinstance(value, dict) else None


def _is_closed(text: str) -> bool:
    """Tell whether every bracket and string is closed: MicroPython 1.25 loads what is cut short."""
    depth = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
    return depth == 0 and not quoted


def _lean(usage: "Any") -> "Any":
    """Return a usage report without details that say nothing: the plainest is the cheapest."""
    if not isinstance(usage, dict):
        return usage
    details = usage.get("prompt_tokens_details")
    idle = not isinstance(details, dict) or not details.get("cached_tokens")
    skipped = ("completion_tokens_details", "prompt_tokens_details" if idle else "")
    return {name: value for name, value in usage.items() if name not in skipped}


def _load(body: bytes) -> "Any":
    try:
        return json.loads(body)
    except (ValueError, RuntimeError):
        raise ProviderError(200, "the answer is not JSON")


def _complaint(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        text = error["message"] if isinstance(error, dict) else error
    except (KeyError, TypeError, ValueError, RuntimeError):
        text = ""
    return text[:300] if text and isinstance(text, str) else "the endpoint refused the request"

"""Read a streamed chat answer."""

from budget_core.answer import complaint, make_answer, parse_json
from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, ToolCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.http import HttpExchange
    from budget_core.shapes import *


async def read_stream(
    exchange: "HttpExchange", on_delta: "Callable[[str], Awaitable[None]]"
) -> ChatResponse:
    """Return the answer that a stream of chunks adds up to, handing each piece of text on.

    Raises `ProviderError` for a stream that breaks off, reports an error or holds no chunks.
    """
    parts = _Parts()
    line = b""
    while not parts.done:
        piece = await exchange.read()
        if not piece:
            break
        lines = (line + piece).split(b"\n")
        line = lines.pop()
        for event in lines:
            text = parts.add(event)
            if text:
                await on_delta(text)
    if parts.finish_reason is None and not (parts.done and (parts.texts or parts.calls)):
        raise ProviderError(exchange.status, "the streamed answer broke off")
    calls = [parts.calls[index] for index in sorted(parts.calls)]
    return make_answer("".join(parts.texts) or None, calls, parts.finish_reason, parts.usage)


class _Parts:
    """What has come of a streamed answer."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: dict[int, ToolCall] = {}
        self.finish_reason: str | None = None
        self.usage: Any = None
        self.done = False

    def add(self, event: bytes) -> str | None:
        """Take in one line of the stream; return the text it adds."""
        if self.done or not event.startswith(b"data:"):
            return None
        data = event[5:].strip()
        if data == b"[DONE]":
            self.done = True
            return None
        try:
            chunk = parse_json(data)
            if chunk.get("error"):
                raise ProviderError(200, "the stream ended in an error: " + complaint(data))
            return self._add(chunk)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise ProviderError(200, "the streamed answer is malformed")

    def _add(self, chunk: "Any") -> str | None:
        self.usage = chunk.get("usage") or self.usage
        if not chunk["choices"]:
            return None
        choice = chunk["choices"][0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice["delta"]
        for part in delta.get("tool_calls") or ():
            self._add_call(part)
        text = delta.get("content")
        if not text or not isinstance(text, str):
            return None
        self.texts.append(text)
        return text

    def _add_call(self, part: "Any") -> None:
        index = part["index"]
        function = part.get("function") or {}
        if not isinstance(index, int):
            raise TypeError
        if index not in self.calls:
            self.calls[index] = ToolCall(part["id"], function["name"], "")
        self.calls[index].arguments += function.get("arguments") or ""

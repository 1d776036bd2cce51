"""Read a streamed chat answer."""

from budget_core.chat.completion import make_answer, parse_json, text_of_parts
from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, ToolCall
from budget_core.usage_stream import as_streamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core.chat.http import HttpExchange
    from budget_core.usage_stream import StreamedAnswer


async def read_stream(
    exchange: "HttpExchange", on_delta: "Callable[[str], Awaitable[None]]"
) -> ChatResponse:
    """Return the answer that a stream of chunks adds up to, and pass each piece of text on.

    An `on_delta` that is a `StreamedAnswer` keeps and counts what comes. Raises `ProviderError` for
    a stream that breaks off, reports an error or holds no chunks.
    """
    sink = as_streamed(on_delta)
    before = len(sink.pieces)  # those are of an attempt that failed
    parts = _Parts(sink)
    line = b""
    while not parts.done:
        piece = await exchange.read()
        if not piece:
            break
        start, end = 0, piece.find(b"\n")
        while end >= 0:  # not `split`: a piece may be line ends alone, each a line
            text = parts.add(line + piece[start:end])
            if text:
                await sink(text)
            line = b""
            start, end = end + 1, piece.find(b"\n", end + 1)
        line += piece[start:]
    text = "".join(sink.pieces[before:])
    if parts.finish_reason is None and not (parts.done and (text or parts.calls)):
        raise ProviderError(exchange.status, "the streamed answer broke off")
    calls = [parts.calls[index] for index in sorted(parts.calls)]
    sink.pieces[before:] = [text]  # the answer's own string: its text is there once
    said = parts.finish_reason, parts.usage, parts.tier, parts.model
    return make_answer(text or None, calls, *said)


class _Parts:
    """The parts of a streamed answer except its text, which the sink keeps."""

    def __init__(self, sink: "StreamedAnswer") -> None:
        self._sink = sink
        self.calls: dict[int, ToolCall] = {}
        self.finish_reason: str | None = None
        self.usage: Any = None
        self.tier: Any = None
        self.model: Any = None
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
                from budget_core.chat.refusal import complaint  # loaded for the first error

                raise ProviderError(200, "the stream reported an error: " + complaint(data)[0])
            return self._add(chunk)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            raise ProviderError(200, "the streamed answer is malformed")

    def _add(self, chunk: "Any") -> str | None:
        sink = self._sink
        if chunk.get("usage"):
            self.usage = sink.usage = chunk["usage"]
        self.tier = chunk.get("service_tier") or self.tier
        self.model = chunk.get("model") or self.model
        if not chunk["choices"]:
            return None
        choice = chunk["choices"][0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice["delta"]
        for part in delta.get("tool_calls") or ():
            index = part["index"]
            function = part.get("function") or {}
            if not isinstance(index, int):
                raise TypeError
            if index not in self.calls:
                self.calls[index] = ToolCall(part["id"], function["name"], "")
                sink.count(function["name"])
            text = function.get("arguments") or ""
            self.calls[index].arguments += text
            sink.count(text)
        text = delta.get("content")
        thought = delta.get("reasoning_content") or delta.get("reasoning") or delta.get("refusal")
        if isinstance(text, list):
            thoughts = [part.get("thinking") for part in text if isinstance(part, dict)]
            thought, text = thought or text_of_parts(thoughts), text_of_parts(text)
        if not isinstance(thought, str):
            thought = text_of_parts(delta.get("reasoning_details"))
        sink.count(thought)
        return text if isinstance(text, str) else None

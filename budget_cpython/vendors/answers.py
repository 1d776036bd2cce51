"""Read an answer: as a whole, or while its bytes are passed on."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budget_core.provider import ChatResponse
from budget_core.usage import Usage, read_usage
from budget_cpython.vendors.usage import billed_usage

MOST_BYTES = 1 << 26  # of one answer or event that is read; longer ones are passed on unread
_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Piece:
    """A piece of an answer: the bytes as they came, what the model wrote in them.

    `passed` is false for what the caller did not ask for.
    """

    raw: bytes
    text: str = ""
    passed: bool = True


class Reader:
    """Collects what an answer says about itself. Bytes go in as they come, pieces come out.

    `report` is the provider's usage report so far, `None` until there is one. `final` says that
    nothing that may still come can change it.
    """

    report: Any = None
    final = False

    def feed(self, data: bytes) -> list[Piece]:
        """Return the pieces that are complete with these bytes."""
        raise NotImplementedError

    def end(self) -> list[Piece]:
        """Return the pieces that are left when no more bytes come."""
        raise NotImplementedError

    def response(self) -> ChatResponse:
        """Return the answer so far; its usage is missing unless the report is the final one."""
        raise NotImplementedError


class WholeReader(Reader):
    """Reads an answer that is one JSON value; `parse` returns what it says."""

    def __init__(self, parse: Callable[[Any], ChatResponse]) -> None:
        self._parse = parse
        self._data = bytearray()
        self._response = answered("", "stop", None, None)

    def feed(self, data: bytes) -> list[Piece]:
        """Return the bytes themselves."""
        if len(self._data) <= MOST_BYTES:
            self._data += data
        return [Piece(data)]

    def end(self) -> list[Piece]:
        """Read the whole; it is final if it is JSON."""
        found = whole_answer(bytes(self._data), self._parse)
        if found is not None:
            self.final, self._response = True, found
            usage: Any = found.usage
            self.report = None if usage.status == Usage.MISSING else usage
        return []

    def response(self) -> ChatResponse:
        """Return the answer; empty before `end`."""
        return self._response


class StreamReader(Reader):
    """Reads server-sent events, however their bytes are cut.

    A subclass takes the JSON of each event, and sets `report`, `ending` and `final`.
    """

    model: str | None = None  # that answers
    service_tier: str | None = None
    ending = "stop"  # `length` once its limit ended the answer

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._texts: list[str] = []

    def take(self, event: dict[str, Any]) -> tuple[str, bool]:
        """Return the model's text in an event, and whether to pass the event on."""
        raise NotImplementedError

    def feed(self, data: bytes) -> list[Piece]:
        """Return the events that end in these bytes."""
        self._rest += data
        pieces = []
        begin = 0
        while found := _END.search(self._rest, max(begin, self._searched)):
            pieces.append(self._piece(bytes(self._rest[begin : found.end()])))
            begin = found.end()
            self._searched = 0
        del self._rest[:begin]
        if len(self._rest) > MOST_BYTES:
            pieces.append(Piece(bytes(self._rest)))
            self._rest.clear()
        self._searched = max(0, len(self._rest) - 3)
        return pieces

    def end(self) -> list[Piece]:
        """Return an event that lacks its end."""
        rest = bytes(self._rest)
        self._rest.clear()
        return [self._piece(rest)] if rest else []

    def response(self) -> ChatResponse:
        """Return the answer so far."""
        report = self.report if self.final else None
        text = "".join(self._texts)
        return answered(text, self.ending, report, self.model, self.service_tier)

    def _piece(self, raw: bytes) -> Piece:
        event = parse_event(raw)
        if event is None:
            return Piece(raw)
        self.model = model_in(event) or self.model
        text, passed = self.take(event)
        if text:
            self._texts.append(text)
        return Piece(raw, text, passed)


def whole_answer(data: bytes, parse: Callable[[Any], ChatResponse]) -> ChatResponse | None:
    """Return an answer that is one JSON value; `None` if it is not, or has too many bytes."""
    try:
        body = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    return None if body is None and data != b"null" else parse(body)


def is_stream(content_type: str) -> bool:
    """Tell whether an answer is one of server-sent events."""
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


def answered(text: str, ended: str, report: Any, body: Any, tier: Any = None) -> ChatResponse:
    """Return an answer; `body`, or the name itself, says its model, `report` what it used.

    The report is read here, once.
    """
    usage: Any = read_usage(report if isinstance(report, dict) and report else None)
    found = ChatResponse(text, finish_reason=ended, usage=usage, service_tier=tier or None)
    if usage.report is not None:  # there is more in it than tokens
        usage = billed_usage(usage)
        found.usage, found.cost = usage, usage.cost
    found.model = body if isinstance(body, str) else model_in(body)
    return found


def model_in(body: Any) -> str | None:
    """Return the model that an answer, or an event of one, says has answered."""
    body = body[-1] if isinstance(body, list) and body else body
    if not isinstance(body, dict):
        return None
    inner = body.get("response") or body.get("message")  # of an event
    found = body.get("model") or body.get("modelVersion")
    found = found or (inner.get("model") if isinstance(inner, dict) else None)
    return found if isinstance(found, str) else None


def parse_event(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object in the data of an event; `None` for comments and anything else.

    `[DONE]` is returned as `{"done": True}`.
    """
    lines = raw.removeprefix(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    data = b"\n".join(
        line.partition(b":")[2].removeprefix(b" ")
        for line in lines
        if line == b"data" or line.startswith(b"data:")
    )
    if data.strip() == b"[DONE]":
        return {"done": True}
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None

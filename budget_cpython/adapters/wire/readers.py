"""Read an answer while its bytes are passed on."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budget_core.provider import ChatResponse

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

    report: dict[str, Any] | None = None
    final = False

    def feed(self, data: bytes) -> list[Piece]:
        """Return the pieces that are complete with these bytes."""
        raise NotImplementedError

    def end(self) -> list[Piece]:
        """Return the pieces that are left when no more bytes come."""
        raise NotImplementedError

    def response(self) -> ChatResponse:
        """Return the answer so far; its usage is empty unless the report is the final one."""
        raise NotImplementedError


class WholeReader(Reader):
    """Reads an answer that is one JSON value; `parse` returns what it says."""

    def __init__(self, parse: Callable[[Any], ChatResponse]) -> None:
        self._parse = parse
        self._data = bytearray()
        self._response = ChatResponse(None)

    def feed(self, data: bytes) -> list[Piece]:
        """Return the bytes themselves."""
        if len(self._data) <= MOST_BYTES:
            self._data += data
        return [Piece(data)]

    def end(self) -> list[Piece]:
        """Read the whole; it is final if it is JSON."""
        if len(self._data) <= MOST_BYTES:
            try:
                body = json.loads(bytes(self._data))
            except (ValueError, RecursionError):
                return []
            self.final = True
            self._response = with_model(self._parse(body), model_in(body))
            self.report = self._response.usage or None
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
        usage = dict(self.report) if self.final and self.report else {}
        text, tier = "".join(self._texts), self.service_tier
        found = ChatResponse(text, finish_reason=self.ending, usage=usage, service_tier=tier)
        return with_model(found, self.model)

    def _piece(self, raw: bytes) -> Piece:
        event = parse_event(raw)
        if event is None:
            return Piece(raw)
        self.model = model_in(event) or self.model
        text, passed = self.take(event)
        if text:
            self._texts.append(text)
        return Piece(raw, text, passed)


def model_in(body: Any) -> str | None:
    """Return the model that an answer, or an event of one, says has answered."""
    body = body[-1] if isinstance(body, list) and body else body
    if not isinstance(body, dict):
        return None
    inner = body.get("response") or body.get("message")  # of an event
    found = body.get("model") or body.get("modelVersion")
    found = found or (inner.get("model") if isinstance(inner, dict) else None)
    return found if isinstance(found, str) else None


def with_model(response: ChatResponse, model: str | None) -> ChatResponse:
    """Return an answer with the model that gave it, and what its report says was billed."""
    response.model = model
    cost = response.usage.get("cost")
    cost = cost.get("total_cost") if isinstance(cost, dict) else cost  # as Perplexity says it
    response.cost = cost if type(cost) in (int, float) else None
    return response


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

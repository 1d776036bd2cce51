"""Bound the service's connections: their number, and the time that one may make no progress."""

import asyncio
import logging
import re
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from budget_cpython.web import AT_ONCE
from budget_cpython.web.addresses import client_network

ENDS_AT_STOP = "microbudget.ends_at_stop"  # in the scope of a request that has no end of its own
MAX_HEADERS = 16_384  # bytes of a request's first line and headers, or of the trailers of its body
_OTHER_FILES = 128  # of the engine, the connections to it, and the process
_PIECE = 16_384  # bytes of a body in chunks that are parsed at once
_BLANK_LINE = b"\r\n\r\n"
_FIRST_LINE = re.compile(rb"[A-Z-]+ /[!\"$-~]* HTTP/1[.][01]\r\n")  # of a path and a query
log = logging.getLogger("microbudget.serve")


@dataclass(frozen=True)
class ConnectionLimits:
    """At most `total` connections, `per_address` of one address, `idle_s` without progress."""

    total: int
    per_address: int
    idle_s: float


def allow_connections(count: int) -> int:
    """Let the process open files for so many connections; return how many the system allows."""
    try:
        import resource
    except ImportError:  # on Windows
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = count + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= files:
        return count
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(1, files - _OTHER_FILES)


class StrictConnection(HttpToolsProtocol):
    """A connection that parses a request only after the answer to the one before it.

    A request's head has at most `MAX_HEADERS` bytes, and a body in chunks has as many more than
    data. A request that is malformed, or whose length another server could understand differently,
    is answered 400 and ends the connection.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.unparsed = b""  # has arrived
        self._extensions: Any = {AT_ONCE: self._answer}
        self._begin()

    def _begin(self) -> None:
        """Await a request's head."""
        self._head = b""
        self._in_head = True
        self._is_whole = False
        self._left = 0  # bytes of a body whose length is known
        self._overhead = 0  # bytes of chunks' lines and trailers, beyond those of data
        self._tail = b""  # the last bytes that were parsed: a blank line may begin there

    def data_received(self, data: bytes) -> None:
        """Parse a request's bytes; those of the next one wait."""
        self._unset_keepalive_if_required()
        self.unparsed += data
        self._parse()

    def on_response_complete(self) -> None:
        """Go on with the next request, if it is there."""
        super().on_response_complete()
        if self.unparsed and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._parse()

    def _parse(self) -> None:
        data, self.unparsed = self.unparsed, b""
        view, at = memoryview(data), 0
        try:
            while at < len(data) and self._awaits_data():
                end = min(at + self._left, len(data)) if self._left else self._lines(data, at)
                self._feed(view[at:end])
                at = end
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return
        if at < len(data):
            self.unparsed = data[at:]
            self.flow.pause_reading()

    def _awaits_data(self) -> bool:
        if self._is_whole and self.cycle.response_complete:
            self._begin()
        return not self._is_whole

    def _lines(self, data: bytes, start: int) -> int:
        """Return the end of the next blank line or piece: no request ends before it."""
        if self._tail:
            at = (self._tail + data[start : start + 3]).find(_BLANK_LINE)
            if at >= 0:
                return start + at + len(_BLANK_LINE) - len(self._tail)
        most = len(data) if self._in_head else min(len(data), start + _PIECE)
        at = data.find(_BLANK_LINE, start, most)
        return most if at < 0 else at + len(_BLANK_LINE)

    def _feed(self, data: memoryview) -> None:
        """Parse bytes that no request ends before; `HttpParserError`."""
        known = self._left
        if self._in_head:
            self._head += data
            _check_size(len(self._head))
        else:
            self._overhead += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._stay()
        if not known:
            if not (self._left or self._is_whole):
                self._tail = (self._tail + bytes(data[-3:]))[-3:]
            self._overhead = max(0, self._overhead)
            _check_size(self._overhead)

    def _stay(self) -> None:
        """Parse a request again without its offer of another protocol: its body follows."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join(lines) + _BLANK_LINE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._is_whole:
            raise httptools.HttpParserError("a request ends within a line")
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a body are dropped."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the answer to a request whose head is valid."""
        if self.parser.get_method() == b"CONNECT":
            raise httptools.HttpParserError("this is not a proxy for tunnels")
        if self.parser.should_upgrade():
            return  # it is parsed again
        if _FIRST_LINE.match(self._head) is None:
            raise httptools.HttpParserError("a request begins with a method, a path and HTTP/1.1")
        self._left = _length_of_body(self.parser.get_http_version(), self.headers)
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take data of the body."""
        self._overhead -= 2 * len(body)
        if self._left:
            self._left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        if not self._in_head:
            self._is_whole = True
            super().on_message_complete()

    def _answer(self, head: bytes, body: bytes) -> bool:
        """Write a whole answer if nothing is particular about it; return whether it is written.

        `head` is its first line and headers, apart from those of the server and of the length.
        """
        cycle = self.cycle
        is_usual = cycle.keep_alive and not cycle.access_log and cycle.scope["method"] != "HEAD"
        if not is_usual or cycle.response_started or cycle.disconnected or self.flow.write_paused:
            return False
        lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        length = b"content-length: %d\r\n\r\n" % len(body)
        cycle.response_started = cycle.response_complete = True
        self.transport.write(b"".join([head, *lines, length, body]))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request; what the app answers to it is dropped."""
        cycle = self.cycle
        if cycle is not None and not self._in_head:
            if cycle.response_started:
                self.transport.close()
                return
            cycle.disconnected = True
        super().send_400_response(msg)

    def shutdown(self) -> None:
        """Await the answer that is being given, but end one that would not end by itself."""
        super().shutdown()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope.get(ENDS_AT_STOP):
            self.transport.close()


def _check_size(size: int) -> None:
    if size > MAX_HEADERS:
        raise httptools.HttpParserError(f"headers have at most {MAX_HEADERS} bytes")


def _length_of_body(version: str, headers: list[tuple[bytes, bytes]]) -> int:
    """Return the length of a request's body, 0 if it comes in chunks; `HttpParserError`."""
    hosts, length = 0, b"0"
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            length = value
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version != "1.1"):
            raise httptools.HttpParserError("a body comes in chunks, or has a length")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise httptools.HttpParserError("a request has one host")
    return int(length)


class LimitedConnection(StrictConnection):
    """A connection that ends if it makes no progress, or if its place is needed.

    The beginning of a request, a finished answer and a write that is blocked or continues are
    progress. A request that is being worked on ends for neither reason.
    """

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self.progress_at = monotonic()
        self.network: str | None = None

    @property
    def is_working(self) -> bool:
        """Whether a whole request is there, and nothing but the service delays its answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        return not self.flow.write_paused

    def worth(self) -> tuple[bool, bool, float]:
        """Return a key that sorts first the connection to end first: it pipelines, or stalls."""
        stalls = bool(self.unparsed) or self.flow.read_paused or self.flow.write_paused
        return not stalls, self.is_working, self.progress_at

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there are too many, end the one that has made no progress for longest."""
        super().connection_made(transport)
        self.network = client_network(self.client[0]) if self.client else None
        self._watch()
        crowd = self._crowd()
        if crowd:
            min(crowd, key=LimitedConnection.worth).end("its place was needed")

    def data_received(self, data: bytes) -> None:
        """Take a request's bytes; only the first ones after an answer are progress."""
        if self.timeout_keep_alive_task is not None:
            self.progress_at = monotonic()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Await the next request."""
        self.progress_at = monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Await a client that does not read."""
        self.progress_at = monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Continue with a client that reads again."""
        self.progress_at = monotonic()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the watch."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def end(self, reason: str) -> None:
        """Close the connection at once, also where its client does not read."""
        log.info("closed a connection of %s: %s", self.network or "a local client", reason)
        self.connections.discard(self)
        self.transport.abort()

    def _crowd(self) -> "list[LimitedConnection]":
        """Return the connections one of which must end, if there are too many."""
        everyone = cast("list[LimitedConnection]", list(self.connections))
        same = [one for one in everyone if one.network == self.network]
        if self.network is not None and len(same) > self._limits.per_address:
            return same
        return everyone if len(everyone) > self._limits.total else []

    def _watch(self) -> None:
        now = monotonic()
        if self.is_working:
            self.progress_at = now
        left = self.progress_at + self._limits.idle_s - now
        if left > 0:
            self._timer = self.loop.call_later(left, self._watch)
        else:
            self.end(f"no progress for {self._limits.idle_s:g} s")

"""HTTP: read a request; send an answer whole, in events or in pieces."""

import json
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from scripted_model.calls import Answer
from scripted_model.checks import ApiError, Json
from scripted_model.formats import Format, vendor_of
from scripted_model.formats.vendors import Vendor

JSON: Final = "application/json"


class HttpHandler(BaseHTTPRequestHandler):
    """One client's connection; `handle` gets it with the body of each request, and answers.

    `address`, `query`, `fields` (the headers, by lower-case names) and `vendor` are those of the
    request that is answered; `format` is that of its answer.
    """

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "microbudget-endpoint", ""
    disable_nagle_algorithm = True
    address: str
    query: dict[str, str]
    fields: dict[str, str]
    vendor: Vendor
    format: Format

    def __init__(self, handle: "Callable[[HttpHandler, bytes], None]", *connection: Any) -> None:
        self._handle = handle
        super().__init__(*connection)  # serves until the connection ends

    def serve(self) -> None:
        """Answer a request; a raised `ApiError` is sent in the vendor's shape."""
        parts = urlsplit(self.path)
        self.address, self.query = parts.path, dict(parse_qsl(parts.query))
        self.fields = {name.lower(): value for name, value in self.headers.items()}
        self.vendor = vendor_of(self.address, self.fields)
        try:
            self._handle(self, self.rfile.read(int(self.fields.get("content-length", "0"))))
        except ApiError as error:
            self.send_json(error.status, self.vendor.error(error), error.headers)

    do_GET = do_POST = serve  # noqa: N815 - its names

    def send_json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        """Send a whole JSON answer."""
        self.send_bytes(status, json.dumps(body).encode(), JSON, headers)

    def send_bytes(
        self, status: int, payload: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        length = str(len(payload))
        self.send_head(status, {"Content-Type": kind, "Content-Length": length, **(headers or {})})
        self.wfile.write(payload)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        """Send the status line and the headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_answer(self, answer: Answer) -> None:
        """Send an answer, as a stream if the request asks for one."""
        events = self.events(answer)
        if not events:
            self.send_json(200, self.format.whole(answer))
            return
        middle = len(events) // 2
        self.send_events(events[:middle])
        if answer.reply.halfway is not None:
            answer.reply.halfway()
        self.send_chunks(events[middle:])
        self.end_events()

    def events(self, answer: Answer) -> Sequence[str]:
        """Return the events of a streamed answer; none if the request asks for no stream."""
        write = self.format.events
        return tuple(write(answer)) if answer.asked.stream and write is not None else ()

    def send_events(self, events: Sequence[str]) -> None:
        """Begin a stream with these events."""
        framing = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        self.send_head(200, framing)
        self.send_chunks(events)

    def send_chunks(self, events: Sequence[str]) -> None:
        """Send more events of a stream."""
        for event in events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_events(self) -> None:
        """End a stream."""
        self.wfile.write(b"0\r\n\r\n")

    def client_leaves(self, seconds: float | None) -> bool:
        """Wait until the client leaves or the endpoint closes; false if `seconds` pass first."""
        self.connection.settimeout(seconds)
        try:
            while self.connection.recv(4096):
                pass
        except TimeoutError:
            return False
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: demos and tests own the terminal."""

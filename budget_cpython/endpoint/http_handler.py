"""HTTP: read a request of limited size; send an answer whole, in events or in pieces."""

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from budget_cpython.endpoint.completions import chunks
from budget_cpython.endpoint.protocol import ApiError, Json

MAX_BODY: Final = 8 * 1024 * 1024
IDLE_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 10.0
JSON: Final = "application/json"


class HttpHandler(BaseHTTPRequestHandler):
    """One client's connection; a subclass answers its requests."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "microbudget-endpoint", ""
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS

    def serve(self) -> None:
        """Answer a request of any method; the route checks the method."""
        try:
            self.answer(self._read_body())
        except ApiError as error:
            self.send_json(error.status, error.body, error.headers)
            if "Connection" in error.headers:
                self._drain()
        except RecursionError:
            self.send_json(400, ApiError(400, "The JSON body is nested too deeply.").body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815 - its names

    def answer(self, raw: bytes) -> None:
        """Answer a request whose body was read; a raised `ApiError` is sent."""
        raise NotImplementedError

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "0").strip()
        refusal: tuple[int, str] | None = None
        if "Transfer-Encoding" in self.headers:
            refusal = 411, "Send the body with a Content-Length."
        elif not (length.isascii() and length.isdigit()):
            refusal = 400, "Content-Length is not a whole number."
        elif len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            refusal = 413, f"The body is larger than {MAX_BODY} bytes."
        if refusal:
            raise ApiError(*refusal, headers={"Connection": "close"})
        raw = self.rfile.read(int(length))
        if len(raw) < int(length):
            raise ConnectionError("the client left before its body was complete")
        return raw

    def _drain(self) -> None:
        # Closing on unread bytes resets the connection, and the client may lose the answer.
        shut(self.connection, socket.SHUT_WR)
        self.connection.settimeout(DRAIN_SECONDS)
        left = 2 * MAX_BODY
        while left > 0 and (piece := self.rfile.read1(65536)):
            left -= len(piece)

    def send_json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        """Send a whole JSON answer."""
        self.send_bytes(status, json.dumps(body).encode(), JSON, headers)

    def send_bytes(
        self, status: int, payload: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer; for HEAD, only its headers."""
        length = str(len(payload))
        self.send_head(status, {"Content-Type": kind, "Content-Length": length, **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(payload)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        """Send the status line and the headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_completion(self, body: Json, completion: Json, cut_short: bool = False) -> None:
        """Send a completion, as a stream if the request asks for one."""
        if not body.get("stream"):
            self.send_json(200, completion)
            return
        include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = [json.dumps(chunk) for chunk in chunks(completion, include_usage)]
        kept = events[: len(events) // 2] if cut_short else [*events, "[DONE]"]
        self._send_events(kept, ended=not cut_short)

    def _send_events(self, events: Iterable[str], ended: bool) -> None:
        chunked = self.request_version != "HTTP/1.0"
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
        self.send_head(200, {"Content-Type": "text/event-stream", **framing})
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        if chunked and ended:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or not ended

    def client_leaves(self, seconds: float | None) -> bool:
        """Wait until the client leaves or the endpoint closes; false if `seconds` pass first."""
        self.connection.settimeout(seconds)
        try:
            while self.connection.recv(4096):
                pass
        except TimeoutError:
            return False
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the errors of `http.server` in the protocol's format."""
        error = ApiError(code, message or explain or "Bad request.")
        self.send_json(code, error.body, {"Connection": "close"})

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: demos and tests own the terminal."""


def shut(connection: socket.socket, how: int) -> None:
    """Shut one or both directions of a connection that may be closed already."""
    with suppress(OSError):
        connection.shutdown(how)

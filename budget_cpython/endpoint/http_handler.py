"""HTTP: read a request; send an answer whole, in events or in pieces."""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from budget_cpython.endpoint.completions import chunks
from budget_cpython.endpoint.protocol import ApiError, Json

JSON: Final = "application/json"


class HttpHandler(BaseHTTPRequestHandler):
    """One client's connection; a subclass answers its requests."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "microbudget-endpoint", ""
    disable_nagle_algorithm = True

    def serve(self) -> None:
        """Answer a request; a raised `ApiError` is sent."""
        try:
            self.answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        except ApiError as error:
            self.send_json(error.status, error.body, error.headers)

    do_GET = do_POST = serve  # noqa: N815 - its names

    def answer(self, raw: bytes) -> None:
        """Answer a request whose body was read."""
        raise NotImplementedError

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

    def send_completion(self, body: Json, completion: Json, cut_short: bool = False) -> None:
        """Send a completion, as a stream if the request asks for one."""
        if not body.get("stream"):
            self.send_json(200, completion)
            return
        include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = [json.dumps(chunk) for chunk in chunks(completion, include_usage)]
        kept = events[: len(events) // 2] if cut_short else [*events, "[DONE]"]
        framing = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
        self.send_head(200, framing)
        for event in kept:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if cut_short:
            self.close_connection = True
        else:
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

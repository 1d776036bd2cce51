"""A server that behaves as the first part of a request's path says, byte by byte."""

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any

from tests.paths import ROOT

DATA = ROOT / "tests/data"
PATIENCE = 60.0
# What it is to a server that a client leaves, or speaks TLS to the plain one.
GONE = (ConnectionError, ssl.SSLError, UnicodeError)
HEAD = b"HTTP/1.1 200 OK\r\n"
MESSAGE = {"choices": [{"message": {"content": "Grüße 😀"}, "finish_reason": "stop"}]}
BODY = json.dumps(MESSAGE).encode()
KNOWN = HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
DELTA = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
ENDED = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
REPORT = b'data: {"choices":[],"usage":{"total_tokens":9,"prompt_tokens":8,"completion_tokens":1}}'
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

Act = Callable[[socket.socket], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def say(*pieces: bytes) -> Act:
    """Return what sends the pieces, then closes."""

    def act(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return act


def stall(*pieces: bytes) -> Act:
    """Return what sends the pieces, then nothing until the client leaves."""

    def act(connection: socket.socket) -> None:
        say(*pieces)(connection)
        await_end(connection)

    return act


def reset(*pieces: bytes) -> Act:
    """Return what sends the pieces, then resets the connection."""

    def act(connection: socket.socket) -> None:
        say(*pieces)(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return act


def flood(connection: socket.socket) -> None:
    """Send a body until the client leaves."""
    connection.sendall(HEAD + b"\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def await_end(connection: socket.socket) -> None:
    """Wait until the client has closed its end."""
    while connection.recv(4096):
        pass


ACTS: dict[str, Act] = {
    "known": stall(KNOWN),
    "chunked": stall(CHUNKED + chunk(BODY) + b"0\r\n\r\n"),
    "closed": say(HEAD + b"\r\n" + BODY),
    "bytewise": stall(*[KNOWN[index : index + 1] for index in range(len(KNOWN))]),
    "refusal": stall(b'HTTP/1.1 429 x\r\nContent-Length: 17\r\n\r\n{"error": "Slow"}'),
    "silence": stall(),
    "hung status": stall(HEAD[:9]),
    "hung head": stall(HEAD + b"Content-Le"),
    "hung body": stall(KNOWN[:-5]),
    "hung chunk": stall(CHUNKED + chunk(BODY)[:-9]),
    "hung refusal": stall(b"HTTP/1.1 500 x\r\n\r\nOops"),
    "hung stream": stall(CHUNKED + chunk(DELTA)),
    "leaves": say(),
    "leaves in head": say(HEAD),
    "leaves in body": say(KNOWN[:-5]),
    "leaves in stream": say(CHUNKED + chunk(DELTA)),
    "leaves after usage": say(CHUNKED + chunk(DELTA) + chunk(REPORT + b"\n\n")),
    "reset": reset(),
    "reset in body": reset(KNOWN[:-5]),
    "flood": flood,
    "stream": stall(CHUNKED + chunk(DELTA) + chunk(DELTA) + chunk(ENDED)),
    "stream on": stall(CHUNKED + chunk(DELTA) + chunk(DELTA)),
}


class Server:
    """Listens on a free port of the loopback, from construction until `close`.

    `served` are the requests by the name of what was done with them, `left` the names of those
    whose client closed the connection. A TLS server has the certificate of that name in `DATA`.
    """

    def __init__(self, tls: bool = False, certificate: str = "localhost") -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if tls else None
        if self.context:
            self.context.load_cert_chain(DATA / f"{certificate}.pem", DATA / f"{certificate}.key")
        self.served: dict[str, Any] = {}
        self.left: list[str] = []
        self.threads: list[threading.Thread] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.listening = threading.Thread(target=self._listen, daemon=True)
        self.listening.start()

    def close(self) -> None:
        """Stop listening, and wait until every client has been dealt with."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in [self.listening, *self.threads]:
            thread.join(PATIENCE)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.settimeout(PATIENCE)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self.threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        name = ""
        with contextlib.suppress(*GONE), connection:
            stream = connection
            if self.context:
                stream = self.context.wrap_socket(connection, server_side=True)
            with stream:
                with contextlib.suppress(*GONE):
                    name, request = read_request(stream)
                    self.served[name] = request
                    ACTS[name](stream)
                self.left.append(name)


def read_request(connection: socket.socket) -> tuple[str, Any]:
    """Return the name in a request's path, and its body.

    Raises `ConnectionError` for less than a whole request, and for none at all.
    """
    with connection.makefile("rb") as reader:
        line = reader.readline()
        if not line.startswith(b"POST /"):
            raise ConnectionError("no request came")
        length = 0
        while header := reader.readline().strip():
            field, _, value = header.decode("ascii").partition(":")
            length = int(value) if field.lower() == "content-length" else length
        body = reader.read(length)
        if not body or len(body) < length:
            raise ConnectionError("the client left before its request was complete")
        return line.decode("ascii").split("/")[1].replace("%20", " "), json.loads(body)

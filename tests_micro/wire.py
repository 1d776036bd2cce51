"""Stand in for the network, so that a client can be tried without one."""

import asyncio

import budget_core.chat.http
from budget_core.chat.client import ChatClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core.provider import ChatResponse

URL = "http://host:81/v1"
KEY = "sk-Secret-0123456789"
HELLO = [{"role": "user", "content": "Grüße 😀"}]
DEEP = "[" * 5000 + "]" * 5000


class Wire:
    """A connection that brings `pieces`, then ends; one that is an exception is raised.

    `sent` is what the client wrote, `largest` the most bytes that it wrote at once, `closed` how
    often it closed a connection. Within `connected`
    it is what `budget_core.chat.http` takes for `asyncio`. First, connections fail by `refusals`.
    """

    TimeoutError = asyncio.TimeoutError

    def __init__(self, *pieces: "bytes | BaseException") -> None:
        self.pieces = list(pieces)
        self.sent = b""
        self.largest = 0
        self.closed = 0
        self.opened: list[tuple[str, int]] = []
        self.connections = 0
        self.refusals: list[OSError] = []

    async def connected(self, function: "Callable[..., Awaitable[Any]]", *args: "Any") -> "Any":
        """Return what the function comes to while this is the network."""
        module: Any = budget_core.chat.http
        module.asyncio = self
        try:
            return await function(*args)
        finally:
            module.asyncio = asyncio

    async def open_connection(self, host: str, port: int, **options: "Any") -> "tuple[Wire, Wire]":
        """Connect."""
        self.opened.append((host, port))
        if self.refusals:
            raise self.refusals.pop(0)
        self.connections += 1
        return self, self

    async def wait_for(self, waiting: "Awaitable[Any]", seconds: float) -> "Any":
        """Wait; nothing here takes time."""
        return await waiting

    async def read(self, size: int) -> bytes:
        """Return the next piece, or a part of it."""
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, BaseException):
            raise piece
        if len(piece) > size:
            self.pieces.insert(0, piece[size:])
        return piece[:size]

    def write(self, data: bytes) -> None:
        """Take what is sent."""
        self.sent += data
        self.largest = max(self.largest, len(data))

    async def drain(self) -> None:
        """Wait for nothing."""

    async def wait_closed(self) -> None:
        """Count a closing, as MicroPython's streams close."""
        self.closed += 1


class Client(ChatClient):
    """A client at a wire's end that makes one attempt unless told otherwise.

    `waits` has the seconds that it waited between attempts; no time passes.
    """

    def __init__(self, *args: "Any", **options: "Any") -> None:
        self.waits: list[float] = []
        super().__init__(*args, **dict({"retries": 0, "sleep": self.wait}, **options))

    async def wait(self, seconds: float) -> None:
        """Take note of a wait."""
        self.waits.append(seconds)

    async def ask(self, wire: Wire, **options: "Any") -> "ChatResponse":
        """Return the answer, and see each connection closed whatever comes of it."""

        async def chat() -> "ChatResponse":
            return await self.chat(HELLO, **options)

        try:
            response: ChatResponse = await wire.connected(chat)
        finally:
            assert wire.closed == wire.connections
        return response


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Return an HTTP answer with its length."""
    lines = ["HTTP/1.1 " + status, f"Content-Length: {len(body)}"] + list(headers) + ["", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*chunks: bytes) -> bytes:
    """Return an HTTP answer in chunks."""
    parts = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(parts) + b"0\r\n\r\n"


def in_single_bytes(data: bytes) -> "list[bytes]":
    """Return the data one byte at a time."""
    return [data[index : index + 1] for index in range(len(data))]

"""One request and its answer: read the one whole, pass the other on piece by piece."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import Message, Receive, Send

from budget_cpython.proxy.errors import ProxyError, error_of

_DRAINED = 1 << 20  # bytes of a refused request that are read: SDKs repeat what is reset


class Gone(Exception):  # noqa: N818 - no client is there to be answered
    """The client left before its whole request had arrived."""


class Exchange:
    """A request's way back: sends the answer, and watches whether the client stays.

    When the client has left, the exchange has `read_on_s` more seconds: until then the upstream's
    answer is read on, to learn what the call used.
    """

    def __init__(self, receive: Receive, send: Send, vendor: str) -> None:
        self._receive = receive
        self._send = send
        self.vendor = vendor
        self.started = False
        self.left = False
        self._unread = True

    async def read_body(self, most: int) -> bytes:
        """Return the request's body.

        Raises `ProxyError` above `most` bytes, and `Gone` if the client leaves.
        """
        body = bytearray()
        while self._unread:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Gone
            self._unread = message.get("more_body", False)
            body += message.get("body", b"")
            if len(body) > most:
                raise ProxyError(413, f"a request has at most {most} bytes")
        return bytes(body)

    async def watch(self, limit: asyncio.Timeout, read_on_s: Callable[[], float]) -> None:
        """Wait for the client to leave, and then ask for how long its answer is read on."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True
        if not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + read_on_s())

    async def refuse(self, error: ProxyError) -> None:
        """Answer in the upstream's place, unless an answer has begun: that is broken off."""
        if self.started:
            return
        headers, body = error_of(self.vendor, error.status, str(error))
        if self._unread:
            with suppress(ProxyError, Gone):
                await self.read_body(_DRAINED)
            headers = {**headers, "connection": "close"}
        await self.answer(error.status, headers, body)

    async def answer(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        """Send a whole answer of JSON."""
        content = json.dumps(body).encode()
        rows = {name.lower().encode(): value.encode() for name, value in headers.items()}
        rows[b"content-type"] = b"application/json"
        rows[b"content-length"] = str(len(content)).encode()
        await self.start(status, list(rows.items()))
        await self.end(content)

    async def start(self, status: int, headers: Any) -> None:
        """Send the head of the answer."""
        self.started = True
        await self._put({"type": "http.response.start", "status": status, "headers": headers})

    async def end(self, body: bytes = b"") -> None:
        """Send the last piece of the body."""
        await self._put({"type": "http.response.body", "body": body})

    async def relay(self, pieces: Any) -> None:
        """Pass on each piece as it comes; where the client has left, read them all the same."""
        async for piece in pieces:
            if piece:
                await self._put({"type": "http.response.body", "body": piece, "more_body": True})
        await self.end()

    async def _put(self, message: Message) -> None:
        if self.left:
            return
        try:
            await self._send(message)
        except OSError:  # as some servers raise it once the client has left
            self.left = True

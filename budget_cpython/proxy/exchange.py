"""One request and its answer: read the one whole, pass the other on piece by piece."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from budget_cpython.adapters.event_loop import aside
from budget_cpython.proxy.upstreams import ANTHROPIC, GOOGLE

# Of each status: Anthropic's word, Google's, ours as OpenAI's `code`, and whether to try again.
_WORDS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT", "bad_request", False),
    401: ("authentication_error", "UNAUTHENTICATED", "invalid_api_key", False),
    403: ("permission_error", "PERMISSION_DENIED", "forbidden", False),
    404: ("not_found_error", "NOT_FOUND", "unknown_url", False),
    413: ("request_too_large", "INVALID_ARGUMENT", "too_large", False),
    500: ("api_error", "INTERNAL", "internal", False),
    502: ("api_error", "UNAVAILABLE", "upstream_unreachable", True),
    503: ("overloaded_error", "UNAVAILABLE", "unavailable", True),
    504: ("timeout_error", "DEADLINE_EXCEEDED", "deadline_exceeded", False),
}
_DRAINED = 1 << 20  # bytes of a refused request that are read: SDKs repeat what is reset


class Exchange:
    """A request's way back: sends the answer, and watches whether the client stays.

    When the client has left, the exchange has `read_on_s` more seconds: until then the upstream's
    answer is read on, to learn what the call used.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, vendor: str) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.vendor = vendor
        self.started = False
        self.left = False
        self._unread = True

    async def read_body(self, most: int) -> bytes:
        """Return the request's body.

        Raises `HTTPException` above `most` bytes, and `ClientDisconnect` if the client leaves.
        """
        pieces = []
        size = 0
        while self._unread:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._unread = message.get("more_body", False)
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if size > most:
                raise HTTPException(413, f"a request has at most {most} bytes (--max-body)")
        body: bytes = await aside(size)(b"".join, pieces)
        return body

    async def watch(self, limit: asyncio.Timeout, read_on_s: Callable[[], float]) -> None:
        """Wait for the client to leave, and then ask for how long its answer is read on."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True
        if not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + read_on_s())

    async def refuse(self, error: HTTPException) -> None:
        """Answer in the upstream's place, unless an answer has begun: that is broken off."""
        if self.started:
            return
        headers, body = error_of(self.vendor, error.status_code, error.detail)
        if self._unread:
            with suppress(HTTPException, ClientDisconnect):
                await self.read_body(_DRAINED)
            headers = {**headers, "connection": "close"}
        await self.answer(error.status_code, headers, body)

    async def answer(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        """Send a whole answer of JSON."""
        await JSONResponse(body, status, headers)(self._scope, self._receive, self._put)

    async def relay(self, status: int, headers: Any, pieces: Any) -> None:
        """Pass on each piece as it comes; where the client has left, read them all the same."""
        await self._put({"type": "http.response.start", "status": status, "headers": headers})
        async for piece in pieces:
            if piece:
                await self._put({"type": "http.response.body", "body": piece, "more_body": True})
        await self._put({"type": "http.response.body", "body": b""})

    async def _put(self, message: Message) -> None:
        self.started = True
        if self.left:
            return
        try:
            await self._send(message)
        except OSError:  # as some servers raise it once the client has left
            self.left = True


def error_of(vendor: str, status: int, message: str) -> tuple[dict[str, str], Any]:
    """Return the headers and the body of an error, as a vendor's SDKs read it.

    They repeat requests that failed with 409, 429 or 5xx unless a header says otherwise.
    """
    anthropic, google, code, again = _WORDS[status]
    body: dict[str, Any]
    if vendor == ANTHROPIC:
        body = {"type": "error", "error": {"type": anthropic, "message": message}}
    elif vendor == GOOGLE:
        body = {"error": {"code": status, "message": message, "status": google}}
    else:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return ({} if again else {"x-should-retry": "false"}), body

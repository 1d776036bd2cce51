"""Leave no body unread on a connection that goes on after the answer."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budget_cpython.serve.body import MAX_BYTES


class ReadOrClosed:
    """An app whose answers come after the body of their request, or close the connection.

    What an answer would leave unread is read first where it is announced as small, so that the
    answer gets through, but for `timeout_s` at most.
    """

    def __init__(self, app: ASGIApp, timeout_s: float) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        announced = b"transfer-encoding" not in headers and length.isdigit() and len(length) < 16
        body = _Body(receive)
        body.is_over = announced and int(length) == 0

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and not body.is_over:
                told = any(name == b"connection" for name, _ in message["headers"])
                small = announced and int(length) <= MAX_BYTES
                if not told and not (small and await body.is_read(self._timeout_s)):
                    close = (b"connection", b"close")
                    message = {**message, "headers": [*message["headers"], close]}
            await send(message)

        await self._app(scope, body.receive, answer)


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_over = False

    async def receive(self) -> Any:
        message = await self._receive()
        self.is_over = not message.get("more_body", False)
        return message

    async def is_read(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_over:
                    await self.receive()
        except TimeoutError:
            return False
        return True

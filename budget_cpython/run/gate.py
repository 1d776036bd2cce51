"""What a run asks of each request before its proxy: the deadline, and whether it was refused."""

import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budget_cpython.deadline import Deadline

_TIMEOUT = b"x-microbudget-timeout"  # milliseconds, as the proxy takes it
_DIGITS = 12  # of a time; the proxy refuses longer ones
_REFUSED = 402
_MOST = 1 << 16  # bytes of a refusal that are kept


class Gate:
    """Stands before a proxy: it gives each call the run's deadline, and counts refusals.

    `deadline` never passes until it is set. Calls in flight then have `grace` seconds more, as the
    command has; later ones have no time. `refused` is how many calls a budget refused, `reason` the
    text of the last refusal.
    """

    def __init__(self, app: ASGIApp, grace: float) -> None:
        self._app = app
        self.deadline = Deadline.never()
        self._grace = grace
        self.refused = 0
        self.reason = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI says."""
        if scope["type"] == "http":
            scope = self._timed(_versioned(scope))
            send = _Watched(self, send)
        await self._app(scope, receive, send)

    def _timed(self, scope: Scope) -> Scope:
        """Send what remains of the time with a request, unless its own header says less."""
        left = self.deadline.to_wire(0)
        if left is None:
            return scope
        if left:
            left += round(self._grace * 1000)
        asked = next((value for name, value in scope["headers"] if name == _TIMEOUT), b"")
        if asked.isdigit() and len(asked) < _DIGITS and int(asked) <= left:
            return scope
        others = [row for row in scope["headers"] if row[0] != _TIMEOUT]
        return {**scope, "headers": [*others, (_TIMEOUT, str(left).encode())]}


def _versioned(scope: Scope) -> Scope:
    """Complete the path of clients whose base URL for Anthropic would end in `/v1`."""
    path: str = scope["path"]
    if not path.startswith("/anthropic/messages"):
        return scope
    raw: bytes = scope.get("raw_path") or path.encode()
    raw = raw.replace(b"/anthropic/", b"/anthropic/v1/", 1)
    return {**scope, "path": path.replace("/anthropic/", "/anthropic/v1/", 1), "raw_path": raw}


class _Watched:
    """Passes an answer on; notes whether it is a refusal, and why."""

    def __init__(self, gate: Gate, send: Send) -> None:
        self._gate = gate
        self._send = send
        self._body: bytearray | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = {name.lower(): value for name, value in message["headers"]}
            if message["status"] == _REFUSED and headers.get(b"x-should-retry") == b"false":
                self._gate.refused += 1
                self._body = bytearray()
        elif self._body is not None:
            self._body += message.get("body", b"")[:_MOST]
            if not message.get("more_body", False):
                self._gate.reason = _reason(bytes(self._body)) or self._gate.reason
        await self._send(message)


def _reason(body: bytes) -> str:
    try:
        found: Any = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(found)

"""The gate before a run's proxy: it gives calls the run's deadline, and counts refusals."""

import json
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budget_core.log import printable
from budget_cpython.adapters.refusals import REFUSED
from budget_cpython.context.deadline import Deadline
from budget_cpython.proxy.usage_by_model import UsageByModel

_TIMEOUT = "x-microbudget-timeout"  # milliseconds, as the proxy takes it
_DIGITS = 12  # of a time; the proxy refuses longer ones
_MOST = 1 << 16  # bytes of a refusal that are kept


class ProxyGate:
    """Stands before a proxy: it gives each call the run's deadline, and counts refusals.

    At the `deadline` calls in flight have `grace` seconds more, as the command has; later ones have
    no time. `usage` is the proxy's. `refused` is how many calls a budget refused, `reason` the text
    of the last refusal.
    """

    def __init__(self, app: ASGIApp, grace: float, deadline: Deadline, usage: UsageByModel) -> None:
        self._app = app
        self._deadline = deadline
        self._grace = grace
        self.usage = usage
        self.refused = 0
        self.reason = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI says."""
        if scope["type"] == "http":
            scope = self._timed(_versioned(scope))
            send = self._watched(send)
        await self._app(scope, receive, send)

    def _timed(self, scope: Scope) -> Scope:
        """Send what remains of the time with a request, unless its own header says less."""
        left = self._deadline.to_wire(0)
        if left is None:
            return scope
        if left:
            left += round(self._grace * 1000)
        headers = MutableHeaders(raw=list(scope["headers"]))
        asked = headers.get(_TIMEOUT, "")
        if asked.isdecimal() and len(asked) < _DIGITS and int(asked) <= left:
            return scope
        headers[_TIMEOUT] = str(left)
        return {**scope, "headers": headers.raw}

    def _watched(self, send: Send) -> Send:
        """Return a `send` that passes an answer on, and notes a refusal and its reason."""
        body: bytearray | None = None

        async def pass_on(message: Message) -> None:
            nonlocal body
            if message["type"] == "http.response.start":
                retry = Headers(raw=message["headers"]).get("x-should-retry")
                if message["status"] == REFUSED and retry == "false":
                    self.refused += 1
                    body = bytearray()
            elif body is not None:
                body += message.get("body", b"")[:_MOST]
                if not message.get("more_body", False):
                    self.reason = _reason(bytes(body)) or self.reason
            await send(message)

        return pass_on


def _versioned(scope: Scope) -> Scope:
    """Complete the path of clients whose base URL for Anthropic would end in `/v1`."""
    path: str = scope["path"]
    if not path.startswith("/anthropic/messages"):
        return scope
    raw: bytes = scope.get("raw_path") or path.encode()
    raw = raw.replace(b"/anthropic/", b"/anthropic/v1/", 1)
    return {**scope, "path": path.replace("/anthropic/", "/anthropic/v1/", 1), "raw_path": raw}


def _reason(body: bytes) -> str:
    try:
        found: Any = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return printable(str(found))

"""Read a request's body: small, whole before the app sees the request, and unambiguous JSON."""

import json
from collections.abc import Iterable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budget_core.ledger.checks import MOST
from budget_cpython.serve.error_responses import error_response

MAX_BYTES = 16_384
ONCE = ("authorization", "content-length", "content-type", "idempotency-key", "host", "origin")
_CLOSE = {"Connection": "close"}


def read_body_first(app: ASGIApp) -> ASGIApp:
    """Return an app that reads each request's body before it calls `app`.

    So an answer always leaves the connection at the next request. A body above `MAX_BYTES`, or with
    its length stated in two ways, is refused, and so is a header of `ONCE` that is repeated: a
    proxy and the service might each take another one. The connection is then closed.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            _check_once(scope["headers"])
            body = await _read(dict(scope["headers"]), receive)
        except HTTPException as error:
            await error_response(error)(scope, receive, send)
            return

        unread = [{"type": "http.request", "body": body}]

        async def receive_body() -> Message:
            return unread.pop() if unread else await receive()

        if body is not None:
            await app(scope, receive_body, send)

    return answer


def _check_once(headers: Iterable[tuple[bytes, bytes]]) -> None:
    names = [name.decode("latin-1") for name, _ in headers]
    for name in ONCE:
        if names.count(name) > 1:
            raise HTTPException(400, f"the header {name.title()} is given twice", _CLOSE)


async def _read(headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
    """Return the body, or `None` if the client has gone."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or {b"content-length", b"transfer-encoding"} <= headers.keys():
        text = "give the body's length once, as Content-Length or by Transfer-Encoding"
        raise HTTPException(400, text, _CLOSE)
    too_large = HTTPException(413, f"a request has at most {MAX_BYTES} bytes", _CLOSE)
    if len(length) > 15 or int(length) > MAX_BYTES:
        raise too_large
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BYTES:
            raise too_large
        if not message.get("more_body", False):
            return body


def parse_object(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; `HTTPException` for another, and for a repeated name."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")
    try:
        found = json.loads(body.decode(), object_pairs_hook=_unique, parse_float=_parse_float)
    except RecursionError as error:
        raise HTTPException(400, "the request's JSON is nested too deeply") from error
    except ValueError as error:
        raise HTTPException(400, f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise HTTPException(400, "the request must be a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _parse_float(text: str) -> float:
    """Return 5.0 as 5, which is the same number in JSON."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= MOST else value

"""Read a request's body: small, whole before the app sees the request, and unambiguous JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budget_core.ledger.checks import MOST
from budget_cpython.web.error_responses import error_reply

MAX_BYTES = 16_384
MAX_BATCH_BYTES = 1 << 20
BATCH_URL = "/v1/batch"  # whose body is read once its key is known
ONCE = ("authorization", "content-length", "content-type", "idempotency-key", "host", "origin")
TOO_DEEP = "the request's JSON is nested too deeply"
_CLOSE = {"Connection": "close"}


def _none(scope: Scope) -> None:
    """Find no app for a request."""


def read_body_first(
    app: ASGIApp,
    find: "Callable[[Scope], ASGIApp | None]" = _none,  # quoted: the site mocks ASGIApp
) -> ASGIApp:
    """Return an app that reads each request's body before it calls `app`, but for batches.

    So an answer always leaves the connection at the next request. A body above `MAX_BYTES`, or with
    its length stated in two ways, is refused, and so is a header of `ONCE` that is repeated: a
    proxy and the service might each take another one. The connection is then closed. An app that
    `find` returns for a request is called in the place of `app`.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        try:
            headers = dict(scope["headers"])
            if len(headers) < len(scope["headers"]):
                _check_once(scope["headers"])
            if _is_batch(scope):
                await app(scope, receive, send)
                return
            body = await _read(headers, receive, MAX_BYTES)
        except HTTPException as error:
            await error_reply(error)(scope, receive, send)
            return

        unread = [{"type": "http.request", "body": body}]

        async def receive_body() -> Message:
            return unread.pop() if unread else await receive()

        if body is not None:
            await (find(scope) or app)(scope, receive_body, send)

    return answer


def headers_of(scope: Scope) -> dict[str, str]:
    """Return a request's headers by their names in small letters."""
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]}


async def read_batch(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a batch, or `None` if the client has gone; `HTTPException`."""
    return await _read(dict(scope["headers"]), receive, MAX_BATCH_BYTES)


def _is_batch(scope: Scope) -> bool:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return bool(path == BATCH_URL and scope["method"] == "POST")


def _check_once(headers: Sequence[tuple[bytes, bytes]]) -> None:
    names = [name.decode("latin-1") for name, _ in headers]
    for name in ONCE:
        if names.count(name) > 1:
            raise HTTPException(400, f"the header {name.title()} is given twice", _CLOSE)


async def _read(headers: dict[bytes, bytes], receive: Receive, most: int) -> bytes | None:
    """Return the body, or `None` if the client has gone."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or {b"content-length", b"transfer-encoding"} <= headers.keys():
        text = "give the body's length once, as Content-Length or by Transfer-Encoding"
        raise HTTPException(400, text, _CLOSE)
    if len(length) > 15 or int(length) > most:
        raise _too_large(most)
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return body


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a request has at most {most} bytes", _CLOSE)


def check_type(headers: Mapping[str, str]) -> None:
    """Raise `HTTPException` unless a body is said to be JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "send JSON, with the header Content-Type: application/json")


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; `HTTPException` for another, and for a repeated name."""
    try:
        found = _decode(body)
        if squeeze(_encode(found)) == squeeze(body) and isinstance(found, dict):
            return found  # most are; else a name is there twice, or something is unusual
    except (ValueError, RecursionError):
        pass
    try:
        found = _decode_slowly(body.decode())
    except RecursionError as error:
        raise HTTPException(400, TOO_DEEP) from error
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


def squeeze(text: bytes) -> bytes:
    """Return JSON without its blanks, those in texts included: to compare it with another one."""
    return text.translate(None, b" \t\r\n")


_encode = msgspec.json.Encoder().encode
_decode_slowly = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_parse_float).decode
_decode = msgspec.json.Decoder(float_hook=_parse_float).decode

"""The answers of the service: JSON, for errors with a word for programs and a text for people."""

import logging
from email.utils import formatdate
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from budget_core.ledger.errors import BudgetExceededError, LedgerError, LedgerUnavailableError
from budget_core.ledger.hold import Balance
from budget_core.until import LAST_DATE
from budget_cpython.ledger.error_answers import LEDGER_ERRORS, rate_limit_headers
from budget_cpython.web import AT_ONCE
from budget_cpython.web.keys import Key

HTTP_ERRORS = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "invalid",  # two parts of the request contradict each other
    413: "too_large",
    415: "not_json",
    422: "invalid",
    500: "internal",
    503: "keys_unavailable",
}
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
_MAX_MESSAGE = 500
_encode = msgspec.json.Encoder().encode
log = logging.getLogger("microbudget.serve")


class JsonReply(msgspec.Struct):
    """An answer in JSON, which as an ASGI app sends itself."""

    status: int
    answer: Any
    headers: dict[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the status, the headers and the JSON, in one step where the server can."""
        body = _encode(self.answer)
        at_once = (scope.get("extensions") or {}).get(AT_ONCE)
        if at_once is not None and self.status == 200 and not self.headers and at_once(_HEAD, body):
            return
        headers = [
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
            *((name.lower().encode(), text.encode()) for name, text in self.headers.items()),
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def error_reply(error: Exception, key: Key | None = None) -> JsonReply:
    """Return the answer for an error, without what the key may not see; those of ours are logged.

    A `ValueError` is a request's value that is refused. What is not known shows nothing of itself.
    """
    if isinstance(error, LedgerError):
        return _ledger_error_reply(error, key)
    if isinstance(error, ValueError):
        error = HTTPException(422, str(error))
    if not isinstance(error, HTTPException):
        log.error("a request failed", exc_info=error)
        error = HTTPException(500, "an error of the service; its log says more")
    word = HTTP_ERRORS.get(error.status_code, "refused")
    answer = {"error": word, "message": error.detail[:_MAX_MESSAGE]}
    return JsonReply(error.status_code, answer, dict(error.headers or {}))


def _ledger_error_reply(error: LedgerError, key: Key | None) -> JsonReply:
    headers: dict[str, str] = {}
    if isinstance(error, LedgerUnavailableError):
        headers["Retry-After"] = "1"
    if isinstance(error, BudgetExceededError):
        if error.resets_at is not None and error.resets_at <= LAST_DATE:
            headers["Retry-After"] = formatdate(error.resets_at, usegmt=True)
        if not may_see(key, error.scope):
            names = (error.scope, error.axis, error.window, error.asked)
            times = (error.resets_at, error.now, error.waited_ms)
            error = BudgetExceededError(*names, error.left, 0, 0, *times)
        headers.update(rate_limit_headers(error))
    for kind, row in LEDGER_ERRORS.items():
        if isinstance(error, kind):
            status, word, fields = row
            break
    else:
        status, word, fields = 500, "ledger_error", ()
    message = str(error)
    if status >= 500:  # it may name files and hosts of the service
        log.warning("%s: %s", type(error).__name__, error)
        message = f"{word.replace('_', ' ')}: the service's log says more"
    answer = {"error": word, "message": message}
    answer.update((name, getattr(error, name)) for name in fields)
    return JsonReply(status, answer, headers)


def may_see(key: Key | None, account: str) -> bool:
    """Tell whether a key may see what others used of an account."""
    return key is None or key.covers(account)


def left_only(row: Balance) -> Balance:
    """Return a balance that shows what is left as if that were the limit."""
    names = (row.account, row.axis, row.window, row.left)
    return Balance(*names, 0, 0, row.begins_at, row.resets_at)

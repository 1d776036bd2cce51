"""Say in HTTP what went wrong: a status, a word for programs, a text for people."""

from email.utils import formatdate
from typing import Any

from starlette.responses import JSONResponse, Response

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_cpython.serve.keys import Key

EXCEEDED = ("scope", "axis", "window", "asked", "limit", "spent", "held", "left", "resets_at")
LEDGER_ERRORS: dict[type[LedgerError], tuple[int, str, tuple[str, ...]]] = {
    BudgetExceededError: (429, "budget_exceeded", EXCEEDED),
    UnknownAccountError: (404, "unknown_account", ("path",)),
    UnknownHoldError: (404, "unknown_hold", ("path", "id")),
    HoldSettledError: (409, "hold_settled", ("id", "state")),
    KeyReusedError: (409, "key_reused", ("path", "key")),
    LedgerFullError: (507, "ledger_full", ()),
    LedgerUnavailableError: (503, "ledger_unavailable", ("applied",)),
}
HTTP_ERRORS = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    411: "length_required",
    413: "too_large",
    415: "not_json",
    422: "invalid",
    500: "internal",
    503: "keys_unavailable",
}
_MAX_MESSAGE = 500
_LAST_DATE = 253_402_300_799  # of the year 9999, after which HTTP has none


class Refusal(Exception):  # noqa: N818 - it is an answer
    """A request that is not done, with the status that says why."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> Response:
        """Return what is answered."""
        return refuse_with(self.status, str(self), self.headers)


def refuse_with(status: int, message: str, headers: Any = None) -> Response:
    """Return the answer for a status that has nothing to do with a ledger."""
    answer = {"error": HTTP_ERRORS.get(status, "refused"), "message": message[:_MAX_MESSAGE]}
    return JSONResponse(answer, status, dict(headers or {}))


def say_ledger_error(error: LedgerError, key: Key | None) -> Response:
    """Return the answer for what a ledger raised, as far as the holder of a key may know it."""
    if isinstance(error, BudgetExceededError) and not may_see(key, error.scope):
        names = (error.scope, error.axis, error.window, error.asked)
        error = BudgetExceededError(*names, error.left, 0, 0, error.resets_at)
    status, word, fields = _of(error)
    answer = {"error": word, "message": str(error)}
    answer.update((field, getattr(error, field)) for field in fields)
    return JSONResponse(answer, status, _headers(error))


def may_see(key: Key | None, account: str) -> bool:
    """Tell whether what others use of an account is the business of the holder of a key."""
    return key is None or key.covers(account)


def _of(error: LedgerError) -> tuple[int, str, tuple[str, ...]]:
    for kind, row in LEDGER_ERRORS.items():
        if isinstance(error, kind):
            return row
    return 500, "ledger_error", ()


def _headers(error: LedgerError) -> dict[str, str]:
    if isinstance(error, LedgerUnavailableError):
        return {"Retry-After": "1"}
    resets_at = error.resets_at if isinstance(error, BudgetExceededError) else None
    if resets_at is None or resets_at > _LAST_DATE:
        return {}
    return {"Retry-After": formatdate(resets_at, usegmt=True)}

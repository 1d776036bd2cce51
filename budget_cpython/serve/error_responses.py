"""The answers for errors: a status, a word for programs, a text for people."""

from email.utils import formatdate

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from budget_core.ledger.errors import BudgetExceededError, LedgerError, LedgerUnavailableError
from budget_core.until import LAST_DATE
from budget_cpython.ledger.error_answers import LEDGER_ERRORS, rate_limit_headers
from budget_cpython.serve.keys import Key

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
_MAX_MESSAGE = 500


def error_response(error: HTTPException) -> Response:
    """Return the answer for an error of HTTP."""
    word = HTTP_ERRORS.get(error.status_code, "refused")
    answer = {"error": word, "message": error.detail[:_MAX_MESSAGE]}
    return JSONResponse(answer, error.status_code, error.headers)


def ledger_error_response(error: LedgerError, key: Key | None) -> Response:
    """Return the answer for an error of the ledger, without what the key may not see."""
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
        message = f"{word.replace('_', ' ')}: the service's log says more"
    answer = {"error": word, "message": message}
    answer.update((field, getattr(error, field)) for field in fields)
    return JSONResponse(answer, status, headers)


def may_see(key: Key | None, account: str) -> bool:
    """Tell whether a key may see what others used of an account."""
    return key is None or key.covers(account)

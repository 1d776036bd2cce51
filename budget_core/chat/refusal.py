"""Read an endpoint's refusal: its words, its reason, and whether to ask again."""

import sys
from os import urandom

from budget_core.chat.completion import parse_json
from budget_core.errors import ProviderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_MESSAGE = 300
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 8
_LONGEST_WAIT_S = 60
_OTHER_LIMIT = "max_completion_tokens"
_UNSUPPORTED = "unsupported_parameter"
_TOO_LONG = ("context_length", "context length", "context window", "context_size", "is too long")


class ContextWindowExceededError(ProviderError):
    """The prompt is too long for the model; while exoclaw is in use, on CPython, also its error."""


def complaint(body: bytes) -> "tuple[str, str]":
    """Return an endpoint's error message, from any of the usual shapes, and its code or type."""
    code: Any = None
    try:
        data = parse_json(body)
        error = data.get("error") or data.get("message") or data.get("detail")
        text = error
        if isinstance(error, dict):
            text, code = error.get("message"), error.get("code")
            code = code if isinstance(code, str) else error.get("type")
    except (AttributeError, ValueError):
        text = None
    text = text if text and isinstance(text, str) else "the endpoint refused the request"
    return text, code if isinstance(code, str) else ""


def refusal(status: int, body: bytes) -> ProviderError:
    """Return the error for an answer with a status other than 200."""
    text, code = complaint(body)
    kind = ProviderError
    if status in (400, 413, 422):
        said = (code + " " + text).lower()
        if any(words in said for words in _TOO_LONG):
            kind = _too_long()
    error = kind(status, text)
    error.code = code or None
    return error


def _too_long() -> "type[ProviderError]":
    exoclaw: Any = sys.modules.get("exoclaw.providers.types")
    try:
        bases = (ContextWindowExceededError, exoclaw.ContextWindowExceededError)
        return type("ContextWindowExceededError", bases, {})
    except (AttributeError, TypeError):  # exoclaw is not in use; MicroPython takes one base only
        return ContextWindowExceededError


def judge(
    client: "Any",
    error: ProviderError,
    key: str | None,
    request: "dict[str, Any]",
    advice: "dict[bytes, bytes]",
    attempts: int,
) -> "tuple[ProviderError, float | None]":
    """Return a failure as it is raised, and the seconds to wait before the next attempt.

    They are `None` where there should be no other attempt, and 0 where the client now sends the
    request's limit under the name that the model takes.
    """
    failure = _without_key(error, key)
    failure.attempts = attempts
    said = failure.message
    other = _OTHER_LIMIT in said or (failure.code == _UNSUPPORTED and "max_tokens" in said)
    if other and failure.status == 400 and "max_tokens" in request:
        client.limit_name = _OTHER_LIMIT
        return failure, 0
    return failure, None if attempts > client.retries else _wait_s(failure, advice, attempts)


def _without_key(error: ProviderError, key: str | None) -> ProviderError:
    """Return an error of the same kind, its message one line without the API key."""
    message = error.message
    if key:
        message = message.replace(key, "[API key]")
    line = [char if char >= " " else " " for char in message[:_MAX_MESSAGE]]
    clean = type(error)(error.status, "".join(line))
    clean.sent = error.sent
    clean.code = error.code
    return clean


def _wait_s(error: ProviderError, advice: "dict[bytes, bytes]", attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt, `None` where none should be made.

    Repeated are requests that cost nothing and may succeed later: those that never arrived, and
    those refused with 408, 409, 429 or 5xx. The endpoint's `x-should-retry` and `Retry-After` (in
    seconds) come first; an endpoint that asks for more than 60 seconds is not asked again.
    """
    asked = advice.get(b"x-should-retry")
    passing = error.status in (408, 409, 429) or error.status >= 500 or not error.sent
    passing = passing and error.code != "insufficient_quota"
    if asked == b"false" or not (passing or (asked == b"true" and error.status >= 400)):
        return None
    backoff: float = min(_FIRST_WAIT_S * (1 << min(attempt, 9) - 1), _LONGEST_BACKOFF_S)
    jitter = backoff / 2 * (urandom(1)[0] + 1) / 256
    try:
        wait = float(advice.get(b"retry-after", b""))
    except ValueError:  # absent, or a date
        wait = backoff / 2
    return wait + jitter if 0 <= wait <= _LONGEST_WAIT_S else None

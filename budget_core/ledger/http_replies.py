"""Read the answers of a ledger's service; another server may be what answered."""

import json

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
from budget_core.ledger.limit import Limit, check_amounts, check_path
from budget_core.ledger.records import Balance, Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_STATES = (Hold.HELD, Hold.COMMITTED, Hold.RELEASED, Hold.EXPIRED)
_MAX_MESSAGE = 300


def read_answer(status: int, data: bytes) -> "dict[str, Any]":
    """Return the JSON object of an answer, or raise the error that it reports."""
    try:
        answer = json.loads(data.decode())
    except (ValueError, RuntimeError):  # a RuntimeError: nested too deeply
        answer = None
    if not isinstance(answer, dict):
        answer = {}
    if status == 200:
        return answer
    error = _error(status, answer)
    raise error


def read_one(answer: "dict[str, Any]", read: "Callable[[Any], Any]") -> "Any":
    """Return what `read` makes of an answer; raise `LedgerUnavailableError` if it cannot."""
    try:
        return read(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = "the ledger: what answered at its URL is something else"
        raise LedgerUnavailableError(text, error, None)


def read_rows(answer: "dict[str, Any]", name: str, read: "Callable[[Any], Any]") -> "list[Any]":
    """Return what `read` makes of each row of an answer's list."""
    rows: list[Any] = read_one(answer, lambda answer: [read(row) for row in answer[name]])
    return rows


def read_count(answer: "dict[str, Any]", name: str) -> int:
    """Return a whole number in an answer."""
    count: int = read_one(answer, lambda answer: _whole(answer[name]))
    return count


def read_hold(row: "Any") -> Hold:
    """Return a hold; `read_one` catches the errors of this function and those below."""
    path, amounts, state, actual = row["path"], row["amounts"], row["state"], row["actual"]
    if state not in _STATES:
        raise ValueError
    if actual is not None:
        actual = check_amounts(actual)
    expires = _maybe_whole(row["expires_at"])
    expires = None if expires is None else expires * 1000
    return Hold(check_path(path), _text(row["id"]), check_amounts(amounts), state, expires, actual)


def read_balance(row: "Any") -> Balance:
    """Return a balance."""
    return Balance(
        check_path(row["account"]),
        _text(row["axis"]),
        _text(row["window"]),
        _maybe_whole(row["limit"]),
        _whole(row["spent"]),
        _whole(row["held"]),
        _whole(row["begins_at"]),
        _maybe_whole(row["resets_at"]),
    )


def read_limit(row: "Any") -> Limit:
    """Return a limit."""
    return Limit(row["axis"], row["cap"], row["window"])


def read_path(row: "Any") -> str:
    """Return a path."""
    return check_path(row)


def _text(value: "Any") -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _whole(value: "Any") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def _maybe_whole(value: "Any") -> int | None:
    return None if value is None else _whole(value)


def _error(status: int, answer: "dict[str, Any]") -> Exception:
    """Return the error that the service reports, as the ledger behind it raised it."""
    word, message = answer.get("error"), answer.get("message")
    if not isinstance(message, str):
        message = "it said no more"
    if not isinstance(word, str):
        word = None  # a gateway's, such as {"error": {"code": 502}}
    message = message[:_MAX_MESSAGE]
    if word == "invalid":
        return ValueError(message)
    if word == "ledger_full":
        return LedgerFullError(message)
    if word == "keys_unavailable":
        return LedgerUnavailableError("the ledger: " + message)
    if word == "ledger_unavailable":
        return LedgerUnavailableError(
            message, None, False if answer.get("applied") is False else None
        )
    if word in _REFUSALS:
        try:
            return _REFUSALS[word](answer)
        except (KeyError, ValueError):
            pass  # as anything that is not from a ledger
    text = f"the ledger's service refused: {message} (HTTP {status})"
    if status >= 500 or status in (408, 429):
        return LedgerUnavailableError(text, None, None)
    return LedgerError(text)


def _exceeded(answer: "dict[str, Any]") -> Exception:
    return BudgetExceededError(
        _text(answer["scope"]),
        _text(answer["axis"]),
        _text(answer["window"]),
        _whole(answer["asked"]),
        _whole(answer["limit"]),
        _whole(answer["spent"]),
        _whole(answer["held"]),
        _maybe_whole(answer["resets_at"]),
    )


_REFUSALS: "dict[Any, Callable[[dict[str, Any]], Exception]]" = {
    "budget_exceeded": _exceeded,
    "unknown_account": lambda said: UnknownAccountError(_text(said["path"])),
    "unknown_hold": lambda said: UnknownHoldError(_text(said["path"]), _text(said["id"])),
    "hold_settled": lambda said: HoldSettledError(_text(said["id"]), _text(said["state"])),
    "key_reused": lambda said: KeyReusedError(_text(said["path"]), _text(said["key"])),
}

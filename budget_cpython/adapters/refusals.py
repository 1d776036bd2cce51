"""A refused call's answer, in each vendor's error form.

The status is 402, and 400 for a request that cannot be read, with `x-should-retry: false`: the
vendors' SDKs repeat 429 and 503, which would be refused again.
"""

from dataclasses import dataclass
from typing import Any, Final

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.llm_account import UnpricedError
from budget_core.repeats import RepeatedCallError
from budget_cpython.adapters.shared_ledgers import ForkedLedgerError
from budget_cpython.ledger.error_answers import EXCEEDED, rate_limit_headers
from budget_cpython.vendors.registry import VENDORS
from budget_cpython.vendors.request import TooLittleLeftError, UnreadableRequestError

REFUSED: Final = 402
UNREADABLE: Final = 400
_LATE: Final = (
    "The call was sent, but its answer did not come in time. It counts as what was held for it, or "
    "as what is known of its answer if that is more."
)
_NO_RETRY: Final = {"Content-Type": "application/json", "x-should-retry": "false"}


@dataclass(frozen=True)
class Refusal:
    """An answer in the vendor's place: a status, headers, and a body as JSON."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]


def refusal(vendor: str, error: BudgetError) -> Refusal:
    """Return the answer for a call that a budget refuses.

    `code` says why: `budget_exceeded`, `unknown_price`, `unknown_account`, `repeated_call`,
    `ledger_unavailable`, `deadline_exceeded`, `unreadable_request` or `budget_error`. `budget` has
    the figures of a limit that is reached.
    """
    code, message = _reason(error)
    headers = dict(_NO_RETRY)
    figures: dict[str, Any] = {}
    if isinstance(error, BudgetExceededError):
        figures = {name: getattr(error, name) for name in EXCEEDED}
        headers.update(rate_limit_headers(error))
    status = UNREADABLE if isinstance(error, UnreadableRequestError) else REFUSED
    return Refusal(status, headers, VENDORS[vendor].error(code, message, figures, status))


def _reason(error: BudgetError) -> tuple[str, str]:
    """Return a word for programs and a text for people; no text names files or hosts."""
    if isinstance(error, BudgetExceededError):
        return "budget_exceeded", str(error)
    if isinstance(error, TooLittleLeftError):
        return "budget_exceeded", f"{error}. The call was not sent."
    if isinstance(error, UnpricedError):
        text = f"{error}: give one in prices, as Price('0.15', '0.60') by the million tokens, or "
        text += "as Price(0, 0, request='0.04') by the call"
        return "unknown_price", f"{text}. The call was not sent; a retry cannot succeed."
    if isinstance(error, UnknownAccountError):
        return "unknown_account", f"{error}. The call was not sent; a retry cannot succeed."
    if isinstance(error, RepeatedCallError):
        return "repeated_call", f"{error}. The call was not sent."
    if isinstance(error, DeadlineExceeded):
        said = _LATE if getattr(error, "sent", False) else "The call was not sent."
        return "deadline_exceeded", f"{error}. {said}"
    if isinstance(error, ForkedLedgerError):
        return "budget_error", f"{error}. The call was not sent; a retry cannot succeed."
    if isinstance(error, LedgerUnavailableError):
        return (
            "ledger_unavailable",
            "The budget's ledger is not available now, so the call was not sent. This is 402, not "
            "503, so that clients do not retry by themselves; try again later.",
        )
    if isinstance(error, UnreadableRequestError):
        return "unreadable_request", f"{error}. The call was not sent."
    return "budget_error", "The budget could not be read or kept, so the call was not sent."

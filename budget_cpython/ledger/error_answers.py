"""The words for errors of a ledger over HTTP, and the headers that say how much is left."""

import re
from typing import Final

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

EXCEEDED: Final = (
    "scope",
    "axis",
    "window",
    "asked",
    "limit",
    "spent",
    "held",
    "left",
    "resets_at",
    "waited_ms",
)
LEDGER_ERRORS: Final[dict[type[LedgerError], tuple[int, str, tuple[str, ...]]]] = {
    BudgetExceededError: (429, "budget_exceeded", EXCEEDED),
    UnknownAccountError: (404, "unknown_account", ("path",)),
    UnknownHoldError: (404, "unknown_hold", ("path", "id")),
    HoldSettledError: (409, "hold_settled", ("id", "state")),
    KeyReusedError: (409, "key_reused", ("path", "key")),
    LedgerFullError: (507, "ledger_full", ()),
    LedgerUnavailableError: (503, "ledger_unavailable", ("applied",)),
}
_SECONDS: Final = {"hour": 3_600, "day": 86_400, "week": 604_800}
_MOST: Final = 999_999_999_999_999  # of an integer in a structured header


def rate_limit_headers(error: BudgetExceededError) -> dict[str, str]:
    """Return `RateLimit-Policy` and `RateLimit` for the limit that refused a call.

    They name the limit by axis and window, such as `"tokens per day"`, and say what it is and what
    is left, in units of the axis, and in how many seconds it resets, where that is known.
    """
    name = re.sub("[^ -~]", "?", f"{error.axis} per {error.window}")
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    policy = f"{quoted};q={min(error.limit, _MOST)}"
    unit, _, rest = error.window.partition("@")[0].partition(" ")
    seconds = rest.partition("/")[0] if unit == "rolling" else _SECONDS.get(unit)
    if seconds:
        policy += f";w={seconds}"
    left = f"{quoted};r={min(error.left, _MOST)}"
    if error.resets_at is not None and error.now:
        left += f";t={min(max(0, error.resets_at - error.now), _MOST)}"
    return {"RateLimit-Policy": policy, "RateLimit": left}

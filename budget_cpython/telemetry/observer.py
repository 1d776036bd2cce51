"""An observer of calls, and what it is told: calls that ended, and refusals."""

from typing import Any, NamedTuple, Protocol

from budget_core.errors import BudgetError
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError
from budget_core.usage import Usage
from budget_cpython.telemetry.conventions import CHAT, EMBEDDINGS, PROVIDERS, UNKNOWN

LIMIT = "limit"
_NO_REFUSAL = ("cancelled", "explicit_stop")  # why a run makes no further call


class EndedCall(NamedTuple):
    """A call of a model that was sent.

    - `operation`, `provider`: by OpenTelemetry's names; a `provider` may be `unknown`.
    - `asked`, `answered`: the model that was asked for, and the one that answered; empty if
      unknown.
    - `error`: the name of the error's class; empty for an answered call.
    - `seconds`: how long it took, without what its budget did before and after it.
    - `usage`: what was used; `None` where the provider reported nothing, or nothing was billed.
    - `nano_usd`: what it was charged; `None` where no price is known.
    - `accounts`: the accounts of ledgers that it drew on.
    """

    operation: str
    provider: str
    asked: str
    answered: str
    error: str
    seconds: float
    usage: Usage | None
    nano_usd: int | None
    accounts: list[LedgerAccount]


class CallRefusal(NamedTuple):
    """A call of a model or of a tool that a budget refused.

    `account` has the limit, or is the name of a tracker or a run. `axis` is empty where it is not
    known. `reason` is `limit`, `unpriced`, `unknown_account`, `unavailable`, or why a run ended.
    """

    account: str
    axis: str = ""
    reason: str = LIMIT


class CallObserver(Protocol):
    """An observer of calls, which must not wait.

    It is told of calls in batches, which takes half the time; before it shows anything, it calls
    `tell_late`.
    """

    def is_due(self) -> bool:
        """Tell whether a call that ends here and now has to be told at once."""

    def ended(self, call: EndedCall, is_late: bool) -> None:
        """Note a call that was sent; `is_late` if it may have ended elsewhere."""

    def refused(self, refusal: CallRefusal) -> None:
        """Note a call that was refused."""


def refusal_of(error: BaseException) -> CallRefusal | None:
    """Return the refusal that an error stands for; `None` for a mistake or a cancelled call."""
    reason: Any = getattr(error, "reason", None)
    if hasattr(reason, "kind"):  # of a run
        if isinstance(reason.error, BudgetError):
            return refusal_of(reason.error)
        if reason.kind in _NO_REFUSAL:
            return None
        return CallRefusal(reason.scope, reason.axis, reason.kind)
    scope = getattr(error, "scope", "")
    match error:
        case BudgetExceededError():
            return CallRefusal(error.scope, error.axis)
        case UnpricedError():
            return CallRefusal(scope, "nano_usd", "unpriced")
        case UnknownAccountError():
            return CallRefusal(error.path, "", "unknown_account")
        case BudgetError():
            return CallRefusal(scope, "", "unavailable")
    return None


def ended_call(call: Any, seconds: float, error: BaseException | None) -> EndedCall:
    """Return the record of a call that was settled."""
    outcome = call.outcome
    return EndedCall(
        EMBEDDINGS if call.options.get("max_tokens") == 0 else CHAT,
        _provider(call),
        _asked(call),
        str(getattr(outcome.response, "model", None) or ""),
        "" if error is None else type(error).__name__,
        seconds,
        _usage(outcome),
        _nano_usd(call),
        [account for account, _ in call.held if isinstance(account, LedgerAccount)],
    )


def _provider(call: Any) -> str:
    vendor = getattr(call.options.get("candidates"), "vendor", None)
    return UNKNOWN if vendor is None else PROVIDERS.get(vendor, vendor)


def _asked(call: Any) -> str:
    """Return the model that was asked for; a call that names none may have it in a hold."""
    if call.model:
        return str(call.model)
    return next((hold.model for _, hold in call.held if getattr(hold, "model", None)), "")


def _usage(outcome: Any) -> Usage | None:
    if not outcome.billed:
        return None
    usage: Usage = outcome.usage
    return usage if usage.status in (Usage.MEASURED, Usage.INVALID) else None


def _nano_usd(call: Any) -> int | None:
    """Return the charge of the innermost account, else the cost that the call itself has."""
    for _, hold in reversed(call.held):
        charged = getattr(hold, "charged", None)
        if charged is not None:
            found: int | None = charged.get("nano_usd")
            return found
    own: int | None = getattr(call, "nano_usd", None)
    return own

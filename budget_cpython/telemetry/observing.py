"""Observers of this process's calls: each is told of calls that end and of refusals.

While there is none, calls run as they do without this module.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from budget_core.call import Call
from budget_core.config import Enforcement
from budget_core.errors import BudgetError
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.for_wrapper import WrapperAccount
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError
from budget_core.log import log
from budget_core.usage import Usage
from budget_core.wrapper import BudgetWrapper
from budget_cpython.process_state import LATE_CALLS, LOCK, OBSERVERS, put_back, replace
from budget_cpython.telemetry.conventions import CHAT, EMBEDDINGS, PROVIDERS, UNKNOWN

LIMIT = "limit"
_BATCH = 32  # calls
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


@dataclass(eq=False, slots=True)
class _Watch:
    """The watch of one call; `outer` is the call that it answers, if there is one."""

    outer: "_Watch | None"
    began: float = 0
    error: Exception | None = None
    has_inner: bool = False


_CURRENT: ContextVar[_Watch | None] = ContextVar("microbudget.watched", default=None)


def observe(observer: CallObserver) -> None:
    """Tell an observer of this process's calls from now on."""
    with LOCK:
        for kind, name, watched in _watched():
            replace(kind, name, watched)
        if observer not in OBSERVERS:
            OBSERVERS.append(observer)


def unobserve(observer: CallObserver) -> None:
    """Tell an observer no more; after the last one, calls run as they did before."""
    with LOCK:
        if observer in OBSERVERS:
            tell_late()
            OBSERVERS.remove(observer)
        for kind, name, _ in () if OBSERVERS else _watched():
            put_back(kind, name)


def _watched() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """Return the methods that are replaced while somebody observes, and what replaces them."""
    return (
        (Call, "admit", _watched_admit),
        (Call, "settle", _watched_settle),
        (BudgetWrapper, "chat", _watched_chat),
        (WrapperAccount, "report_refusal", _watched_refusal),
    )


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


def tell_refused(refusal: CallRefusal | None) -> None:
    """Tell the observers of a refusal, if it is one."""
    if refusal is not None:
        for observer in OBSERVERS:
            _tell(observer.refused, refusal)


def tell_late() -> None:
    """Tell the observers of calls that have ended, among them those that ended while closing."""
    with suppress(IndexError):
        while True:
            ended = LATE_CALLS.popleft()
            for observer in OBSERVERS:
                _tell(observer.ended, ended, True)


def _tell(told: Callable[..., None], *what: Any) -> None:
    try:
        told(*what)
    except Exception as error:  # noqa: BLE001 - a call goes on without its telemetry
        log("warning", f"a call was not observed: {type(error).__name__}: {error}")


def _watched_admit(admit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(admit)
    async def watched(self: Any, accounts: Any) -> None:
        is_client = "answerers" in self.options  # its answer is awaited elsewhere
        if not OBSERVERS or (is_client and _is_answering()):
            await admit(self, accounts)
            return
        outer = _CURRENT.get()
        if outer is not None:
            outer.has_inner = True
        watch = _Watch(outer)
        _CURRENT.set(watch)
        try:
            await admit(self, accounts)
        except BaseException as error:
            _leave(watch)
            tell_refused(refusal_of(error))
            raise
        if self.answer is not None:
            _leave(watch)
            scope = getattr(self.answer, "cut_off_by", None) or ""
            tell_refused((watch.error and refusal_of(watch.error)) or CallRefusal(scope))
            return
        if is_client:
            _leave(watch)
        self.watch = watch
        watch.began = perf_counter()

    return watched


def _watched_settle(settle: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(settle)
    async def watched(
        self: Any, response: Any = None, error: BaseException | None = None, sent: bool = True
    ) -> None:
        watch: _Watch | None = vars(self).pop("watch", None)
        if watch is None:
            await settle(self, response, error, sent)
            return
        seconds = perf_counter() - watch.began
        try:
            await settle(self, response, error, sent)
        finally:
            _leave(watch)
            if OBSERVERS and sent and not watch.has_inner:
                failed = error if response is None else None
                _tell(_tell_ended, self, seconds, failed)

    return watched


def _watched_chat(chat: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(chat)
    async def watched(
        self: Any, messages: Any, tools: Any = None, model: Any = None, *rest: Any, **options: Any
    ) -> Any:
        if not OBSERVERS or self.ledger_account is not None:
            return await chat(self, messages, tools, model, *rest, **options)
        call = Call(messages, tools, model or self.get_default_model())
        await call.admit(())
        try:
            response = await chat(self, messages, tools, model, *rest, **options)
        except BaseException as error:
            await call.settle(None, error)
            raise
        await call.settle(response)
        return response

    return watched


def _watched_refusal(report: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(report)
    def watched(self: Any, error: Exception) -> Any:
        watch = _CURRENT.get()
        if watch is not None and not watch.began:
            watch.error = error  # its call may be answered in the model's place
        elif self._wrapper.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK):
            tell_refused(refusal_of(error))  # of a tool
        return report(self, error)

    return watched


def _is_answering() -> bool:
    """Tell whether a call of a client is made to answer another one, which is watched."""
    from budget_cpython.adapters.call import is_answering

    return is_answering()


def _leave(watch: _Watch) -> None:
    if _CURRENT.get() is watch:
        _CURRENT.set(watch.outer)


def _tell_ended(call: Any, seconds: float, error: BaseException | None) -> None:
    outcome = call.outcome
    cut_off_by = getattr(outcome.response, "cut_off_by", None)
    if cut_off_by:  # by a tracker
        tell_refused(CallRefusal(cut_off_by))
        return
    told = EndedCall(
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
    # While closing, as in `__del__`, a lock of an observer may be held here.
    if not outcome.closing and any(observer.is_due() for observer in OBSERVERS):
        for observer in OBSERVERS:
            _tell(observer.ended, told, False)
        return
    LATE_CALLS.append(told)
    if not outcome.closing and len(LATE_CALLS) >= _BATCH:
        tell_late()


def _provider(call: Any) -> str:
    vendor = getattr(call.options.get("answerers"), "vendor", None)
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

"""Observe this process's calls: tell observers of those that end, and of refusals.

While there is none, calls run as they do without this module.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from time import perf_counter
from typing import Any

from budget_core.call import Call
from budget_core.config import Enforcement
from budget_core.ledger.enforced_account import EnforcedAccount
from budget_core.log import log
from budget_core.wrapper import BudgetWrapper
from budget_cpython.context.process_state import LATE_CALLS, LOCK, OBSERVERS, put_back, replace
from budget_cpython.telemetry.observer import CallObserver, CallRefusal, ended_call, refusal_of

_BATCH = 32  # calls


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
    """Return the methods that are replaced while there is an observer, and their replacements.

    So a call asks for observers once, when it has ended.
    """
    return (
        (Call, "admit", _watched_admit),
        (Call, "settle", _watched_settle),
        (BudgetWrapper, "chat", _watched_chat),
        (EnforcedAccount, "report_refusal", _watched_refusal),
    )


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
        is_client = "candidates" in self.options  # its answer is awaited elsewhere
        if is_client and _is_answering():
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
        if self.ledger_account is not None:
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
        elif self.enforcer.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK):
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
    told = ended_call(call, seconds, error)
    # While closing, as in `__del__`, a lock of an observer may be held here.
    if not outcome.closing and any(observer.is_due() for observer in OBSERVERS):
        for observer in OBSERVERS:
            _tell(observer.ended, told, False)
        return
    LATE_CALLS.append(told)
    if not outcome.closing and len(LATE_CALLS) >= _BATCH:
        tell_late()

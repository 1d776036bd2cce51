"""One model call of an SDK: admitted before it is sent, settled when its answer is there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Thread
from typing import Any
from weakref import ref

import budget_core.usage_reports  # noqa: F401 - a forgotten call is collected anywhere
from budget_core.call import Call
from budget_core.digests import digest_of
from budget_core.ledger.checks import MOST
from budget_core.ledger.outbox import finish
from budget_core.provider import ChatResponse
from budget_core.repeats import RepeatStop
from budget_core.settlement import is_closing
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer
from budget_cpython.adapters.account import Accounts, BudgetAccount
from budget_cpython.adapters.event_loop import has_event_loop
from budget_cpython.context.deadline import current_or_none
from budget_cpython.context.entered import current_accounts
from budget_cpython.context.process_state import OPEN_CALLS
from budget_cpython.prices.candidate_models import CandidateModels
from budget_cpython.vendors.request import Admitted, LlmRequest

_ANSWERED: ContextVar[tuple["Answered", ...]] = ContextVar("microbudget.answered", default=())
_STOPS: ContextVar[tuple[RepeatStop, ...]] = ContextVar("microbudget.stops", default=())


class Answered:
    """A call that calls of its client answer, and whether one of these broke off.

    What broke off may have been billed: the call is settled then. Later ones, such as the client's
    next attempt, draw on its accounts as calls of their own.
    """

    def __init__(self, call: "BudgetedCall", accounts: Accounts, own: Accounts) -> None:
        self.call = ref(call)
        self.accounts = accounts
        self.own = own
        self.broke_off = False


class BudgetedCall:
    """One call that draws on accounts: those of the blocks around it, then its client's `own`.

    `begin` admits it, and one of `end`, `fail` and `abandon` settles it; what comes after does
    nothing. The blocking forms need no event loop, and work inside one.

    An `observer` is a further account, the first to be asked and the last to be told. A call that
    is sent `as_asked` takes no notices, and keeps its messages and tools.
    """

    def __init__(
        self,
        own: Sequence[BudgetAccount],
        request: LlmRequest,
        *,
        observer: Any = None,
        as_asked: bool = False,
    ) -> None:
        self.request = request
        self._around = _accounts_around(own)
        self._accounts = distinct(self._around, _drawn_on())
        self._answered = Answered(self, tuple(self._accounts), tuple(own))
        self._stops = _stops_of(self._around)
        self._observer = observer
        self._as_asked = as_asked
        self._streamed = StreamedAnswer() if request.stream else None
        options: dict[str, Any] = {
            "max_tokens": _limit_of(request, self._around),
            "service_tier": request.service_tier,
            "candidates": CandidateModels(
                request.vendor, request.models, request.deployed_at, request.units
            ),
        }
        if self._stops:
            identity = request.identity or (request.model, request.messages, request.tools)
            options["identity"] = digest_of(identity)
        if self._streamed is not None:
            options["on_delta"] = self._streamed
        messages, tools = request.without_tools() if as_asked else (request.messages, request.tools)
        self._call = Call(messages, tools, request.model, options)
        self._told = len(messages)

    def begin_blocking(self) -> Admitted:
        """Admit the call, and return what to send.

        Raises `BudgetExceededError` or another error of the budget, after which nothing is held,
        and `DeadlineExceeded` where the current deadline has passed.
        """
        finish(self._call.admit(self._in_ledgers(True)))
        return self._begun()

    async def begin(self) -> Admitted:
        """Admit the call as `begin_blocking` does; the event loop goes on meanwhile."""
        await self._call.admit(self._in_ledgers(False))
        return self._begun()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Return a `with` for the calls that answer this one, such as those of its model's client.

        They draw only on accounts that this call does not draw on, until one of them breaks off.
        """
        before = _ANSWERED.set((*_ANSWERED.get(), self._answered))
        stops = _STOPS.set((*_STOPS.get(), *self._stops))
        try:
            yield
        finally:
            _STOPS.reset(stops)
            _ANSWERED.reset(before)

    def on_text(self, text: str) -> None:
        """Count a piece of a streamed answer: text, reasoning or the arguments of a tool."""
        if self._streamed is not None:
            with suppress(AnswerTooLongError):  # it is counted all the same
                self._streamed.count(text)

    @property
    def report(self) -> Any:
        """The provider's last report of what a streamed answer used; `None` before the first."""
        return None if self._streamed is None else self._streamed.usage

    @report.setter
    def report(self, usage: Any) -> None:
        if self._streamed is not None:
            self._streamed.usage = usage

    def end_blocking(self, response: ChatResponse) -> None:
        """Record what an answered call used: its `usage`, or the last report of its stream."""
        finish(self._settle(response))

    async def end(self, response: ChatResponse) -> None:
        """Record what an answered call used, as `end_blocking` does."""
        await self._settle(response)

    def fail_blocking(self, error: BaseException) -> None:
        """Settle a call that failed.

        It cost nothing if the error has `sent = False`; else its outcome is unknown, and it counts
        as what was held, or as what came of its answer if that is more.
        """
        finish(self._settle(None, error))

    async def fail(self, error: BaseException) -> None:
        """Settle a call that failed, as `fail_blocking` does."""
        await self._settle(None, error)

    def abandon(self) -> None:
        """Settle a call whose answer is not awaited any longer; it counts as one that failed.

        Nothing is awaited: the ledger is told at once, by a task of the event loop that runs here,
        or, where a generator is closed, by a thread: it may hold a lock of the ledger.
        """
        if not self._forget():
            return
        if is_closing() and not has_event_loop():
            with suppress(RuntimeError):  # the interpreter ends, and delivers what is owed
                Thread(target=_deliver, args=(self._accounts,), daemon=True).start()
        elif not has_event_loop():
            _deliver(self._accounts)

    def __del__(self) -> None:
        """Settle a call that is forgotten; the ledger is told with its next delivery."""
        self._forget()

    @property
    def broke_off(self) -> bool:
        """Whether an attempt broke off, so that later ones are calls of their own."""
        return self._answered.broke_off

    @property
    def model(self) -> str:
        """The model that the call is sent to: the one that was asked for, or the fallback."""
        return self._call.model or ""

    def _in_ledgers(self, is_blocking: bool) -> list[Any]:
        deadline = current_or_none()
        if deadline is not None:
            deadline.check_or_raise()
        found: list[Any] = [] if self._observer is None else [self._observer]
        found += self._stops
        for account in self._accounts:
            found.append(account.in_ledger(is_blocking))
        return found

    def _begun(self) -> Admitted:
        call = self._call
        self._open = call
        OPEN_CALLS.add(self)
        limit = call.options.get("max_tokens")
        if self._as_asked:
            return Admitted(self.model, (), self.request.tools, limit)
        told = call.messages[self._told :]
        notices = tuple([message["content"] for message in told]) if told else ()
        return Admitted(self.model, notices, call.tools, limit)

    async def _settle(self, response: Any, error: BaseException | None = None) -> None:
        call = self._take()
        if call is not None:
            try:
                await call.settle(response, error)
            finally:
                self._count(call)

    def _forget(self) -> bool:
        """Settle the call without awaiting anything, and return whether it was still open."""
        call = self._take()
        if call is None:
            return False
        finish(call.settle(None, GeneratorExit()))
        self._count(call)
        return True

    def begin_again(self) -> None:
        """Leave the call, in a forked process, to its parent."""
        self._take()

    def _take(self) -> Call | None:
        """Return the open call to the first that settles it, of several threads too."""
        OPEN_CALLS.discard(self)
        call: Call | None = vars(self).pop("_open", None)
        return call

    def _count(self, call: Call) -> None:
        """Count a charge on its account, and on those around that count it, too."""
        for held_in, hold in call.held:
            account = getattr(held_in, "enforcer", None)
            if account is None or hold.charged is None:
                continue
            for around in {*self._around, account}:
                if _counts(around, account):
                    around.calls.add(hold, call.outcome)


def _limit_of(request: LlmRequest, accounts: Sequence[BudgetAccount]) -> int | None:
    """Return the limit that a call's answer has: the caller's, else the least of its accounts'."""
    if request.max_tokens is not None:
        return min(MOST, request.max_tokens)
    return min((one.max_tokens for one in accounts if one.max_tokens is not None), default=None)


def _stops_of(accounts: Sequence[BudgetAccount]) -> list[RepeatStop]:
    """Return the stops of accounts that do not watch a call here yet, each once."""
    found: list[RepeatStop] = []
    for account in accounts:
        stop = account.repeat_stop
        if stop is not None and stop not in found and stop not in _STOPS.get():
            found.append(stop)
    return found


def _deliver(accounts: Sequence[BudgetAccount]) -> None:
    """Deliver the outboxes of ledgers that can be asked without a loop."""
    for account in accounts:
        account.deliver()


@contextmanager
def apart() -> Iterator[None]:
    """Return a `with` for calls that are no part of one that is answered, such as a tool's."""
    before, stops = _ANSWERED.set(()), _STOPS.set(())
    try:
        yield
    finally:
        _STOPS.reset(stops)
        _ANSWERED.reset(before)


def is_answering() -> bool:
    """Tell whether calls here answer another one, which draws on accounts."""
    return bool(_ANSWERED.get())


def accounts_to_draw_on() -> list[BudgetAccount]:
    """Return the accounts of the blocks around that do not count a call here yet."""
    return distinct(_accounts_around(()), _drawn_on())


def is_repeating() -> bool:
    """Tell whether calls here come after one that broke off, of those that answer another one."""
    return any(one.broke_off for one in _ANSWERED.get())


def break_off() -> list[BudgetedCall]:
    """Return the calls that are answered here, to be settled as one that answers them broke off."""
    found = []
    for one in _ANSWERED.get():
        call = one.call()
        if call is not None and not one.broke_off:
            found.append(call)
        one.broke_off = True
    return found


def _accounts_around(own: Sequence[BudgetAccount]) -> list[BudgetAccount]:
    """Return the accounts of the blocks around, of calls that broke off here, and a call's own."""
    broken: list[BudgetAccount] = []
    for one in _ANSWERED.get():
        if one.broke_off:
            broken += one.own
    return [*current_accounts(), *broken, *own]


def _drawn_on() -> Accounts:
    found: Accounts = ()
    for one in _ANSWERED.get():
        if not one.broke_off:
            found += one.accounts
    return found


def distinct(
    accounts: list[BudgetAccount], drawn_on: Sequence[BudgetAccount] = ()
) -> list[BudgetAccount]:
    """Return the accounts that a call has to draw on, so that each account counts it once.

    An account also counts what is drawn on accounts below it. So those are left out that count the
    call by another of `accounts`, or by one that is already `drawn_on`, but for strict accounts
    where that one observes. An account where calls are only observed is enforced as a strict one
    above it is.
    """
    if len(accounts) < 2 and not drawn_on:
        return accounts
    kept: list[BudgetAccount] = []
    for account in accounts:
        same = [other for other in accounts if other.ledger is account.ledger]
        above = any(other.path.startswith(account.path + "/") for other in same)
        done = [*kept, *(other for other in drawn_on if other.is_strict or not account.is_strict)]
        if not above and not any(_counts(account, other) for other in done):
            kept.append(account if len(same) == 1 else _enforced(account, same))
    return kept


def _counts(account: BudgetAccount, other: BudgetAccount) -> bool:
    """Tell whether an account counts what is drawn on another one."""
    along = (other.path + "/").startswith(account.path + "/")
    return along and other.ledger is account.ledger


def _enforced(account: BudgetAccount, same: list[BudgetAccount]) -> BudgetAccount:
    """Return an account, or where it only observes, the same as a strict one enforces it."""
    along = [one for one in same if _counts(one, account)]
    strict = next((one for one in [account, *along] if one.is_strict), account)
    return strict.at(account.path)

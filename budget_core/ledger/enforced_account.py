"""An account of a ledger whose limits are enforced: LLM calls draw on it within them."""

from budget_core.call import Call
from budget_core.config import Enforcement, TurnBudgetConfig
from budget_core.enforcement import call_hook, cut_off, enforce, report_limit
from budget_core.errors import refuse
from budget_core.ledger.cached_balance import FinalCall
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError
from budget_core.log import log
from budget_core.notices import CUTOFF, LAST_CALL, UNAVAILABLE, fill, substitute
from budget_core.thresholds import as_messages
from budget_core.tracker import TurnBudgetTracker
from budget_core.usage_estimate import estimate_tokens
from budget_core.usage_stream import as_streamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import CallPrice, Enforcer, Messages, Provider, Tools
    from budget_core.ledger._types import AnyLedger
    from budget_core.ledger.llm_hold import LlmHold
    from budget_core.settlement import Settlement
    from budget_core.tracker import BudgetTracker

_REMEMBERED = 15  # windows of limits whose refusal was reported


def draw_on(
    wrapper: "Any",
    inner: "Provider",
    tracker: "BudgetTracker | None",
    enforcement: str | None,
    *options: "Any",
) -> "tuple[BudgetTracker, EnforcedAccount]":
    """Return a wrapper's tracker, by default one without limits, and its account of a ledger.

    `options` are those of `EnforcedAccount`. Raises `ValueError` if the tracker or an inner
    provider already counts on the same account.
    """
    account = EnforcedAccount(wrapper, *options)
    if tracker is None:
        mode = enforcement or Enforcement.CUTOFF
        tracker = TurnBudgetTracker(TurnBudgetConfig(None, None, enforcement=mode))
    account.refuse_twice(inner, tracker)
    return tracker, account


async def _make(call: Call, provider: "Provider") -> "Any":
    """Return the provider's answer to an admitted call, and settle the call.

    A stream that a lowered limit cut ends in the part that came.
    """
    streamed, failure = call.options.get("on_delta"), None
    try:
        response = await provider.chat(
            messages=call.messages, tools=call.tools, model=call.model, **call.options
        )
    except BaseException as error:
        response = None if streamed is None else streamed.cut_answer(error)
        if response is None:
            await call.settle(None, error)
            raise
        failure = error
    await call.settle(response, failure)
    return response


def _tell(call: Call, notice: str | None) -> None:
    """Append a notice to what is sent; the caller's list stays as it is."""
    if notice:
        call.messages = list(call.messages) + as_messages([notice])


class _TrackerAccount:
    """A wrapper's tracker, as an account that is enforced before a call and records it after."""

    def __init__(self, wrapper: "Any") -> None:
        self._wrapper = wrapper

    async def hold(self, call: Call) -> str | None:
        """Enforce the limits that are near; return the model whose usage is counted."""
        wrapper = self._wrapper
        tracker = wrapper.tracker
        tracker.maybe_auto_reset()
        await wrapper.ledger_account.enforce(call)
        if tracker.by_model and call.model is None:
            return str(wrapper.get_default_model())
        return call.model

    async def settle(self, model: str | None, outcome: "Settlement") -> None:
        """Record a call; one whose usage cannot be told counts as one that reported none."""
        wrapper, usage = self._wrapper, None
        try:
            usage = outcome.recorded(wrapper.estimates)
        except Exception:  # noqa: BLE001, S110 - no memory left: it is recorded as it is
            pass
        wrapper.tracker.record(usage, model)
        if wrapper.tracker.alert:
            report_limit(wrapper)


class EnforcedAccount(LedgerAccount):
    """An account of a ledger whose limits are enforced as an `enforcer` says.

    The enforcer has the hooks, and says whether to estimate: a `BudgetWrapper` for the calls of a
    provider. `unpriced` counts the calls whose reports name something that their price does not
    cover, `cut_short` the answers that ended at a limit which the budget lowered. An account that
    is `alone` enforces its limits by itself: no tracker does so before it.
    """

    SHOWN = ("flush", "ledger_error", "unpriced", "cut_short")  # also as the wrapper's own
    unpriced = cut_short = 0

    def __init__(
        self,
        enforcer: "Enforcer",
        ledger: "AnyLedger",
        account: str,
        prices: "Any" = None,
        count_tokens: "Callable[[Any, Any], int] | None" = None,
        max_tokens: int | None = None,
        ttl: float | None = None,
        key: "Callable[[], str] | None" = None,
        raises: bool = False,
        wait: float | None = None,
        expect: int | str | None = None,
        alone: bool = False,
    ) -> None:
        super().__init__(ledger, account, max_tokens, ttl, wait, expect)
        self.enforcer = enforcer
        if prices is not None and not hasattr(prices, "get"):
            refuse("prices", "a dict of Prices by model", prices)
        self._prices = prices
        self._count = count_tokens or estimate_tokens
        self._key = key
        self._raises = raises
        self._alone = alone
        self._reported: list[tuple[Any, ...]] = []
        self._outage: tuple[Any, ...] = ()
        self._final = FinalCall()

    @property
    def ledger_error(self) -> Exception | None:
        """Why the ledger last failed; `None` if it never did."""
        return self.error

    async def close(self) -> None:
        """Deliver the outbox to the ledger."""
        await self.flush()

    async def chat(
        self,
        wrapper: "Any",
        messages: "Messages",
        tools: "Tools | None",
        model: str | None,
        options: "dict[str, Any]",
    ) -> "Any":
        """Answer like a wrapper's inner provider, within its tracker and this account."""
        call = Call(messages, tools, model, options)
        await call.admit((_TrackerAccount(wrapper), self))
        return await _make(call, wrapper.inner) if call.answer is None else call.answer

    async def enforce(self, call: Call) -> None:
        """Change a call, or answer it, as is due near a limit of the account or of a tracker."""
        tracker, balance = self.enforcer.tracker, self.cached_balance
        if tracker.alert or balance.is_due(tracker.due_ppm):
            found = await enforce(self.enforcer, call.messages, call.tools, call.model, balance)
            call.answer, call.messages, call.tools, call.model = found

    async def hold(self, call: Call) -> "LlmHold | None":
        """Take a hold for a call, and bound its answer by the hold."""
        if self._alone:
            await self.enforce(call)
        enforcer, options = self.enforcer, call.options
        asked = options.pop("max_tokens", None)
        prompt = self._count(call.messages, call.tools)
        candidates = self._priced(call.model, options.get("candidates"))
        name, price = candidates[0]
        strict = enforcer.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK)
        limit = self.cached_balance.limit_of(name, prompt, asked, price)
        if call.tools and strict:
            limit, notice = self._before_final(prompt, limit, price)
            if notice:
                _tell(call, notice)
                call.tools = None
                prompt = self._count(call.messages, None)
        try:
            hold = await self._reserve(candidates, prompt, limit, strict)
            if self._outage in self._reported:
                self._reported = [one for one in self._reported if one != self._outage]
                log("info", f"calls on {self.path} are admitted again")
        except (UnknownAccountError, ValueError):
            raise  # a mistake of the caller's, not the end of a budget
        except Exception as error:  # whatever a ledger raises, the budget holds
            notice = self.report_refusal(error)
            if self._raises:
                raise
            if strict:
                call.answer = cut_off(self._notice(error), getattr(error, "scope", self.path))
                return None
            _tell(call, notice)
            hold = self.unheld(prompt, limit, price)
        if strict:
            hold.compare(asked)
            asked = hold.limit
        if asked is not None:
            options["max_tokens"] = asked
        if "on_delta" in options:
            options["on_delta"] = as_streamed(options["on_delta"], asked if strict else None)
        if hold.model == enforcer.fallback_model:
            call.model = hold.model
        hold.begin()
        return hold

    def _before_final(
        self, prompt: int, limit: int | None, price: "CallPrice | None"
    ) -> "tuple[int | None, str | None]":
        """Return the longest answer after which a final call still fits, or a notice.

        Where none fits, the call is the final one, and the notice says so.
        """
        final = self._final.needs(prompt, limit, price)
        longest, axis = self.cached_balance.longest(prompt, limit, price, final)
        if axis is None:
            return longest, None
        reason = fill("{scope} has used {used} of {cap} {unit}", axis)
        return limit, substitute(LAST_CALL, {"reason": reason})

    def _priced(self, model: str | None, candidates: "Any") -> "list[tuple[str, CallPrice | None]]":
        """Return the candidate models with their prices: the fallback where the first is too dear.

        `candidates` says how the call's prices are found, if it is known where it is sent.
        """
        models = [model or self.enforcer.get_default_model()]
        fallback = self.enforcer.fallback_model
        if self.enforcer.enforcement == Enforcement.FALLBACK and fallback not in (None, models[0]):
            models.append(str(fallback))
        if self._prices is None:
            return [(name, None) for name in models]
        if candidates is not None:
            return [(name, candidates.price(self._prices, name)) for name in models]
        from budget_core.prices import call_price  # loaded where there are prices

        return [(name, call_price(self._prices, name)) for name in models]

    async def _reserve(
        self,
        candidates: "list[tuple[str, CallPrice | None]]",
        prompt: int,
        limit: int | None,
        strict: bool,
    ) -> "LlmHold":
        """Return the hold of the model that answers."""
        key = None if self._key is None else self._key()
        for name, price in candidates[:-1]:
            try:
                asked = (name, prompt, limit, price, strict, key, False)  # it does not wait
                return await self.reserve(*asked)
            except (BudgetExceededError, UnpricedError) as error:
                self.report_refusal(error)
        name, price = candidates[-1]
        return await self.reserve(name, prompt, limit, price, strict, key)

    async def settle(self, hold: "LlmHold", outcome: "Settlement") -> None:
        """Charge the call; where the enforcer `estimates`, an estimate counts as measured."""
        await hold.settle(outcome, self.enforcer.estimates)

    def note_charge(self, held: "LlmHold") -> None:
        """Count a call that is not fully priced, or whose answer this budget cut short."""
        super().note_charge(held)
        self.cut_short += held.cut_short
        self.unpriced += held.price is not None and not held.priced

    def report_refusal(self, error: Exception) -> str | None:
        """Call the hook once for each window of a limit; return the notice that is due."""
        enforcer = self.enforcer
        place: tuple[Any, ...] = (type(error),)
        if isinstance(error, BudgetExceededError):
            place = (error.scope, error.axis, error.window, error.resets_at)
        else:
            self.error = error
            self._outage = place
        if place in self._reported:
            return None
        self._reported = self._reported[-_REMEMBERED:] + [place]
        level = "info" if isinstance(error, BudgetExceededError) else "warning"
        log(level, f"a call on {self.path} was refused: {error}")
        if isinstance(error, BudgetExceededError) and enforcer.on_limit_reached:
            used, cap = error.spent + error.held, error.limit
            share = max(1.0, used / cap) if cap else 1.0  # less is left than is asked
            axis = (error.scope, error.axis, used, cap, 0)
            call_hook(enforcer, enforcer.on_limit_reached, axis, utilization=share)
        return self._notice(error) if enforcer.enforcement == Enforcement.WARN else None

    def _notice(self, error: Exception) -> str:
        from budget_core.ledger.window_words import per

        if isinstance(error, UnpricedError):
            return f"[Budget unavailable] {error}."
        if not isinstance(error, BudgetExceededError):
            return UNAVAILABLE
        if error.spent + error.held < error.limit:
            return f"[Budget exhausted] {error}."  # it is not spent, but the call does not fit
        unit = per(error.axis, error.window)
        axis = (error.scope, unit, error.spent + error.held, error.limit, 0)
        return fill(self.enforcer.tracker.config.cutoff_template or CUTOFF, axis)

"""Have a wrapped provider's calls draw on an account of a ledger."""

from budget_core.config import Enforcement, TurnBudgetConfig
from budget_core.enforcement import call_hook, cut_off
from budget_core.errors import refuse
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError
from budget_core.ledger.standing import FinalCall, Standing
from budget_core.log import log
from budget_core.notices import CUTOFF, LAST_CALL, UNAVAILABLE, fill, substitute
from budget_core.provider import ChatResponse, maybe_await
from budget_core.settlement import Settlement
from budget_core.tracker import TurnBudgetTracker
from budget_core.usage_estimate import estimate_tokens
from budget_core.usage_stream import as_streamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Messages, Provider, Tools, Wrapper
    from budget_core.ledger._types import AnyLedger
    from budget_core.ledger.llm_hold import LlmHold
    from budget_core.prices import Price
    from budget_core.tracker import BudgetTracker
    from budget_core.usage_stream import StreamedAnswer

_REMEMBERED = 15  # windows of limits whose refusal was reported


def draw_on(
    wrapper: "Wrapper",
    inner: "Provider",
    tracker: "BudgetTracker | None",
    enforcement: str | None,
    *options: "Any",
) -> "tuple[Provider, BudgetTracker, Standing]":
    """Return a provider whose calls draw on a ledger, a tracker, and the account's standing.

    The tracker is by default one without limits.

    `options` are those of `LedgerProvider`. Raises `ValueError` if the tracker or an inner provider
    already counts on the same account.
    """
    provider = LedgerProvider(wrapper, inner, *options)
    if tracker is None:
        mode = enforcement or Enforcement.CUTOFF
        tracker = TurnBudgetTracker(TurnBudgetConfig(None, None, enforcement=mode))
    provider.ledger_account.refuse_twice(inner, tracker)
    return provider, tracker, provider.standing


class LedgerProvider:
    """The provider that a `BudgetWrapper` with a ledger puts round its own.

    `wrapper` says how to enforce limits, has the hook to call, and whether to estimate. `unpriced`
    counts the calls whose reports name something that their price does not cover, `cut_short` the
    answers that ended at a limit which the budget lowered. `on_charge(hold, outcome, options)` is
    called for each call that is charged.
    """

    unpriced = cut_short = 0
    on_charge: "Callable[..., Any] | None" = None

    def __init__(
        self,
        wrapper: "Wrapper",
        inner: "Provider",
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
    ) -> None:
        self.inner = inner
        self.ledger_account = LedgerAccount(ledger, account, max_tokens, ttl, wait, expect)
        self._wrapper = wrapper
        if prices is not None and not hasattr(prices, "get"):
            refuse("prices", "a dict of Prices by model", prices)
        self._prices = prices
        self._count = count_tokens or estimate_tokens
        self._key = key
        self._raises = raises
        self._reported: list[tuple[Any, ...]] = []
        self._outage: tuple[Any, ...] = ()
        self.standing = Standing(self.ledger_account)
        self._final = FinalCall()

    def __getattr__(self, name: str) -> "Any":
        if name == "inner" or name.startswith("__"):  # asked before __init__ ran, as copy does
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def ledger_error(self) -> Exception | None:
        """Why the ledger last failed; `None` if it never did."""
        return self.ledger_account.error

    async def flush(self) -> bool:
        """Deliver what the ledger is owed; return whether it has everything."""
        return await self.ledger_account.flush()

    async def close(self) -> None:
        """Deliver what the ledger is owed; close the inner provider if it can be closed."""
        await self.flush()
        if hasattr(self.inner, "close"):
            await maybe_await(self.inner.close())

    async def chat(
        self,
        messages: "Messages",
        tools: "Tools | None" = None,
        model: str | None = None,
        max_tokens: int | None = None,
        **options: "Any",
    ) -> "Any":
        """Answer like the inner provider, within what the ledger has left."""
        prompt = self._count(messages, tools)
        candidates = self._candidates(model, options.get("answerers"))
        name, price = candidates[0]
        strict = self._wrapper.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK)
        limit = self.standing.limit_of(name, prompt, max_tokens, price)
        if tools and strict:
            limit, notice = self._before_final(prompt, limit, price)
            if notice:
                messages = list(messages) + [{"role": "user", "content": notice}]
                tools = None
                prompt = self._count(messages, tools)
        try:
            hold = await self._reserve(candidates, prompt, limit, strict)
            if self._outage in self._reported:
                self._reported.remove(self._outage)
                log("info", f"calls on {self.ledger_account.path} are admitted again")
            if strict:
                hold.compare(max_tokens)
                max_tokens = hold.limit
        except (UnknownAccountError, ValueError):
            raise  # a mistake of the caller's, not the end of a budget
        except Exception as error:  # whatever a ledger raises, the budget holds
            notice = self.report_refusal(error)
            if self._raises:
                refused: Any = error
                refused.sent = False  # outer wrappers need not estimate it
                raise
            if strict:
                scope = getattr(error, "scope", self.ledger_account.path)
                return cut_off(self._notice(error), scope)
            if notice:
                messages = list(messages) + [{"role": "user", "content": notice}]
            hold = self.ledger_account.unheld(prompt, limit, price)
        if max_tokens is not None:
            options["max_tokens"] = max_tokens
        if "on_delta" in options:
            options["on_delta"] = as_streamed(options["on_delta"], max_tokens if strict else None)
        options["model"] = hold.model if hold.model == self._wrapper.fallback_model else model
        return await self._call(hold, messages, tools, options)

    def _before_final(
        self, prompt: int, limit: int | None, price: "Price | None"
    ) -> "tuple[int | None, str | None]":
        """Return the longest answer after which a final call still fits, or a notice.

        Where none fits, the call is the final one, and the notice says so.
        """
        final = self._final.needs(prompt, limit, price)
        longest, axis = self.standing.longest(prompt, limit, price, final)
        if axis is None:
            return longest, None
        reason = fill("{scope} has used {used} of {cap} {unit}", axis)
        return limit, substitute(LAST_CALL, {"reason": reason})

    def _candidates(self, model: str | None, answerers: "Any") -> "list[tuple[str, Price | None]]":
        """Return the candidate models with their prices: the fallback where the first is too dear.

        `answerers` says how the call's prices are found, if it is known where it is sent.
        """
        models = [model or self.inner.get_default_model()]
        fallback = self._wrapper.fallback_model
        if self._wrapper.enforcement == Enforcement.FALLBACK and fallback not in (None, models[0]):
            models.append(str(fallback))
        if self._prices is None:
            return [(name, None) for name in models]
        if answerers is not None:
            return [(name, answerers.price(self._prices, name)) for name in models]
        from budget_core.prices import price_of  # loaded where there are prices

        return [(name, price_of(self._prices, name)) for name in models]

    async def _reserve(
        self,
        candidates: "list[tuple[str, Price | None]]",
        prompt: int,
        limit: int | None,
        strict: bool,
    ) -> "LlmHold":
        """Return what is held for the one who answers."""
        account = self.ledger_account
        key = None if self._key is None else self._key()
        for name, price in candidates[:-1]:
            try:
                asked = (name, prompt, limit, price, strict, key, False)  # it does not wait
                return await account.reserve(*asked)
            except (BudgetExceededError, UnpricedError) as error:
                self.report_refusal(error)
        name, price = candidates[-1]
        return await account.reserve(name, prompt, limit, price, strict, key)

    async def _call(
        self,
        hold: "LlmHold",
        messages: "Messages",
        tools: "Tools | None",
        options: "dict[str, Any]",
    ) -> "Any":
        error: BaseException | None = None
        streamed: StreamedAnswer | None = options.get("on_delta")
        asked = (messages, tools, streamed, options.get("service_tier"))
        hold.begin()
        try:
            response = await self.inner.chat(messages=messages, tools=tools, **options)
        except BaseException as raised:
            if streamed is None or not streamed.cut or not isinstance(raised, Exception):
                await self._settle(hold, Settlement(None, raised, *asked), options)
                raise
            error = raised
            response = ChatResponse(streamed.text, finish_reason="length")
        await self._settle(hold, Settlement(response, error, *asked), options)
        return response

    async def _settle(
        self, hold: "LlmHold", outcome: Settlement, options: "dict[str, Any]"
    ) -> None:
        charged = hold.charge(outcome, self._wrapper.estimates)
        if charged is not None:
            self.cut_short += hold.cut_short
            self.standing.add(charged)
            self.unpriced += hold.price is not None and not hold.priced
            if self.on_charge is not None:
                self.on_charge(hold, outcome, options)
        await hold.settle(outcome.closing)

    def report_refusal(self, error: Exception) -> str | None:
        """Call the hook once for each window of a limit; return the notice that is due."""
        wrapper = self._wrapper
        place: tuple[Any, ...] = (type(error),)
        if isinstance(error, BudgetExceededError):
            place = (error.scope, error.axis, error.window, error.resets_at)
        else:
            self.ledger_account.error = error
            self._outage = place
        if place in self._reported:
            return None
        self._reported = self._reported[-_REMEMBERED:] + [place]
        level = "info" if isinstance(error, BudgetExceededError) else "warning"
        log(level, f"a call on {self.ledger_account.path} was refused: {error}")
        if isinstance(error, BudgetExceededError) and wrapper.on_limit_reached:
            used, cap = error.spent + error.held, error.limit
            share = max(1.0, used / cap) if cap else 1.0  # less is left than is asked
            axis = (error.scope, error.axis, used, cap, 0)
            call_hook(wrapper, wrapper.on_limit_reached, axis, utilization=share)
        return self._notice(error) if wrapper.enforcement == Enforcement.WARN else None

    def _notice(self, error: Exception) -> str:
        if isinstance(error, UnpricedError):
            return f"[Budget unavailable] {error}."
        if not isinstance(error, BudgetExceededError):
            return UNAVAILABLE
        if error.spent + error.held < error.limit:
            return f"[Budget exhausted] {error}."  # it is not spent, but the call does not fit
        unit = f"{error.axis} per {error.window}"
        axis = (error.scope, unit, error.spent + error.held, error.limit, 0)
        return fill(self._wrapper.tracker.config.cutoff_template or CUTOFF, axis)

"""Have a wrapped provider's calls draw on an account of a ledger."""

from budget_core.config import Enforcement, TurnBudgetConfig
from budget_core.dialects import reckoned
from budget_core.edge import call_hook
from budget_core.estimate import better_report, estimate_tokens, is_billed
from budget_core.ledger_call import ANSWER, OUT_OF_REACH, TTL, LedgerAccount, UnpricedError, used_by
from budget_core.ledger_errors import (
    BudgetExceededError,
    LedgerError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.provider import ChatResponse, settle
from budget_core.received import as_received
from budget_core.template import substitute
from budget_core.tracker import TurnBudgetTracker
from budget_core.usage import INVALID, MEASURED, MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.received import Received
    from budget_core.reservation import Reservation
    from budget_core.shapes import *

_REMEMBERED = 15  # refused windows of limits that hooks and models were told of


def share(
    wrapper: "BudgetWrapper",
    inner: "Provider",
    tracker: "BudgetTracker | None",
    enforcement: str | None,
    **shared: "Any",
) -> "tuple[LedgerProvider, BudgetTracker]":
    """Return a provider whose calls are held in a ledger, and a tracker: one that only counts."""
    provider = LedgerProvider(wrapper, inner, **shared)
    if tracker is None:
        mode = enforcement or Enforcement.CUTOFF
        tracker = TurnBudgetTracker(TurnBudgetConfig(None, None, (), mode))
    if getattr(tracker, "ledger", None) is provider.ledger_account.ledger:
        raise ValueError("ledger must be another than the tracker's, which would count twice")
    return provider, tracker


class LedgerProvider:
    """What `BudgetWrapper` puts round its provider when it is given a ledger."""

    def __init__(
        self,
        wrapper: "BudgetWrapper",
        inner: "Provider",
        ledger: "Any" = None,
        account: str = "",
        prices: "Any" = None,
        count_tokens: "Callable[[Any, Any], int]" = estimate_tokens,
        max_tokens: int = ANSWER,
        ttl: float = TTL,
        key: "Callable[[], str] | None" = None,
        raises: bool = False,
    ) -> None:
        self.inner = inner
        self.ledger_account = LedgerAccount(ledger, account, max_tokens, ttl)
        self._wrapper = wrapper
        self._prices = prices
        self._count = count_tokens
        self._key = key
        self._raises = raises
        self._told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> "Any":
        if name == "inner" or name.startswith("__"):  # asked before __init__ ran, as copy does
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def ledger_error(self) -> Exception | None:
        """Why the ledger was last out of reach, or not told something; `None` if it never was."""
        return self.ledger_account.error

    async def flush(self) -> bool:
        """Tell the ledger what it was not told yet; return whether it knows everything."""
        return await self.ledger_account.flush()

    async def close(self) -> None:
        """Tell the ledger what it was not told yet; close the inner provider if it can be."""
        await self.flush()
        if hasattr(self.inner, "close"):
            await settle(self.inner.close())

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
        named = model or self.inner.get_default_model()
        try:
            named, draw = await self._reserved(named, prompt, max_tokens)
            if self._is_strict():
                max_tokens = draw.limit
        except (UnknownAccountError, ValueError):
            raise  # somebody's mistake, not a budget's end
        except Exception as error:  # whatever a ledger raises, the budget holds
            notice = self._noted(error)
            if self._raises:
                refused: Any = error
                refused.sent = False  # which outer wrappers ask, that may estimate it otherwise
                raise
            if self._is_strict():
                return self._answer(error)
            if notice:
                messages = list(messages) + [{"role": "user", "content": notice}]
            draw = self.ledger_account.unheld(prompt, max_tokens, self._price(named))
        if max_tokens is not None:
            options["max_tokens"] = max_tokens
        if "on_delta" in options:
            options["on_delta"] = as_received(options["on_delta"])
        options["model"] = named if named == self._wrapper.fallback_model else model
        return await self._made(draw, self._price(named), messages, tools, options)

    def _is_strict(self) -> bool:
        return self._wrapper.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK)

    def _price(self, model: str) -> "Price | None":
        return None if self._prices is None else self._prices.get(model)

    async def _reserved(
        self, model: str, prompt: int, limit: int | None
    ) -> "tuple[str, Reservation]":
        """Return who answers, and what is held for it: the fallback where the first is too dear."""
        strict, account = self._is_strict(), self.ledger_account
        key = None if self._key is None else self._key()
        fallback = self._wrapper.fallback_model
        try:
            price = self._price(model)
            return model, await account.reserve(model, prompt, limit, price, strict, key)
        except LedgerError as error:
            demotes = self._wrapper.enforcement == Enforcement.FALLBACK and fallback != model
            if not demotes or not fallback or isinstance(error, LedgerUnavailableError):
                raise
            self._noted(error)
            price = self._price(fallback)
            return fallback, await account.reserve(fallback, prompt, limit, price, True, key)

    async def _made(
        self,
        draw: "Reservation",
        price: "Price | None",
        messages: "Messages",
        tools: "Tools | None",
        options: "dict[str, Any]",
    ) -> "Any":
        def used(response: "Any" = None) -> "tuple[dict[str, int], bool]":
            return self._used(response, options.get("on_delta"), messages, tools, price)

        draw.begin()
        try:
            response = await self.inner.chat(messages=messages, tools=tools, **options)
        except GeneratorExit:
            draw.abandon(used()[0])
            raise
        except BaseException as error:
            if is_billed(error):
                await draw.leave(used()[0])
            else:
                await draw.release()
            raise
        if getattr(response, "cut_off_by", None):
            await draw.release()
        else:
            await draw.settle(*used(response))
        return response

    def _used(
        self,
        response: "Any",
        received: "Received | None",
        messages: "Messages",
        tools: "Tools | None",
        price: "Price | None",
    ) -> "tuple[dict[str, int], bool]":
        """Return what a call used as far as it is known, and whether that is exact."""
        try:
            if received is None:
                usage = getattr(response, "usage", None)
            else:
                usage = received.settled(response, messages, tools)
            tokens, nano_usd, status = reckoned(usage, price)
            if status in (INVALID, MISSING):
                usage = better_report(usage, response, messages, tools)
                tokens, nano_usd, _ = reckoned(usage, price)
            return used_by(tokens, nano_usd), status == MEASURED or self._wrapper.estimates
        except Exception:  # noqa: BLE001 - what cannot be reckoned counts as what was held
            return {"calls": 1}, False

    def _noted(self, error: Exception) -> str | None:
        """Tell the hook, once for each window of a limit; return what the model is told once."""
        wrapper = self._wrapper
        place: tuple[Any, ...] = (type(error),)
        if isinstance(error, BudgetExceededError):
            place = (error.scope, error.axis, error.window, error.resets_at)
        else:
            self.ledger_account.error = error
        if place in self._told:
            return None
        self._told = self._told[-_REMEMBERED:] + [place]
        if isinstance(error, BudgetExceededError) and wrapper.on_limit_reached:
            used, cap = error.spent + error.held, error.limit
            call_hook(
                wrapper,
                wrapper.on_limit_reached,
                scope=error.scope,
                utilization=used / cap if cap else 1.0,
                used=used,
                cap=cap,
                unit=error.axis,
            )
        return self._text(error) if wrapper.enforcement == Enforcement.WARN else None

    def _text(self, error: Exception) -> str:
        if not isinstance(error, BudgetExceededError):
            unpriced = isinstance(error, UnpricedError)
            return f"[Budget unavailable] {error}." if unpriced else OUT_OF_REACH
        values = {
            "scope": error.scope,
            "pct": 100 * (error.spent + error.held) // error.limit if error.limit else 100,
            "used": error.spent + error.held,
            "cap": error.limit,
            "unit": f"{error.axis} a {error.window}",
        }
        config: Any = self._wrapper.tracker.config
        return substitute(config.cutoff_template, values)

    def _answer(self, error: Exception) -> ChatResponse:
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        scope = getattr(error, "scope", self.ledger_account.path)
        return ChatResponse(self._text(error), usage=nothing, cut_off_by=scope)

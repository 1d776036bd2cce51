"""Say that a ledger refused a call: to a wrapper's hook, to the model, and in its place."""

from budget_core.config import Enforcement
from budget_core.enforcement import call_hook
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.llm_account import UnpricedError
from budget_core.notices import UNAVAILABLE, substitute
from budget_core.provider import ChatResponse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Wrapper
    from budget_core.ledger.llm_account import LedgerAccount

_REMEMBERED = 15  # windows of limits that hooks and models were told of


class Refusals:
    """What a wrapper says of the calls that its account refused, or could not be asked for."""

    def __init__(self, wrapper: "Wrapper", account: "LedgerAccount") -> None:
        self._wrapper = wrapper
        self._account = account
        self._told: list[tuple[Any, ...]] = []

    def note(self, error: Exception) -> str | None:
        """Tell the hook, once for each window of a limit; return what the model is told once."""
        wrapper = self._wrapper
        place: tuple[Any, ...] = (type(error),)
        if isinstance(error, BudgetExceededError):
            place = (error.scope, error.axis, error.window, error.resets_at)
        else:
            self._account.error = error
        if place in self._told:
            return None
        self._told = self._told[-_REMEMBERED:] + [place]
        if isinstance(error, BudgetExceededError) and wrapper.on_limit_reached:
            used, cap = error.spent + error.held, error.limit
            call_hook(
                wrapper,
                wrapper.on_limit_reached,
                scope=error.scope,
                utilization=max(1.0, used / cap) if cap else 1.0,  # less is left than is asked
                used=used,
                cap=cap,
                unit=error.axis,
            )
        return self._text(error) if wrapper.enforcement == Enforcement.WARN else None

    def _text(self, error: Exception) -> str:
        if isinstance(error, UnpricedError):
            return f"[Budget unavailable] {error}."
        if not isinstance(error, BudgetExceededError):
            return UNAVAILABLE
        used, cap = error.spent + error.held, error.limit
        if used < cap:
            return f"[Budget exhausted] {error}."  # it is not spent, but the call does not fit
        values = {
            "scope": error.scope,
            "pct": 100 * used // cap if cap else 100,
            "used": used,
            "cap": cap,
            "unit": f"{error.axis} per {error.window}",
        }
        config: Any = self._wrapper.tracker.config
        return substitute(config.cutoff_template, values)

    def answer(self, error: Exception) -> ChatResponse:
        """Return the answer in the model's place."""
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        scope = getattr(error, "scope", self._account.path)
        return ChatResponse(self._text(error), usage=nothing, cut_off_by=scope)

"""The outcome of one LLM call: its usage, how well that is known, and its cost."""

import sys

from budget_core.provider import is_billed, usage_of
from budget_core.usage import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import CallPrice

_MOST_USD = 9_000_000  # as nano-USD it is the most that a ledger takes at once


class Settlement:
    """The outcome of one call: its `response`, or the `error` in its place; both if it was cut.

    `messages`, `tools` and the service `tier` are what was asked, `streamed` is the
    `StreamedAnswer` that counted its pieces.

    - `sent`: whether it was admitted, and so may have reached the model.
    - `billed`: whether it may cost something: not if it was refused, never sent, or answered by a
      budget.
    - `failed`: whether it broke off, so that not all of its usage is known.
    - `closing`: whether its coroutine is being closed, so that nothing can be awaited.
    """

    def __init__(
        self,
        response: "Any",
        error: BaseException | None = None,
        messages: "Any" = (),
        tools: "Any" = None,
        streamed: "Any" = None,
        tier: "Any" = None,
        sent: bool = True,
    ) -> None:
        self.failed = error is not None or response is None
        self.sent = sent
        self.billed = sent and (error is None or is_billed(error))
        if getattr(response, "cut_off_by", None):
            self.billed = False
        self.closing = isinstance(error, GeneratorExit) or is_closing()
        self.response = response
        self._asked = messages, tools
        self._streamed = streamed
        self._tier = tier
        self._usage: Usage | None = None

    def recorded(self, estimates: bool) -> Usage:
        """Return the usage for a tracker; without `estimates` as it was reported or streamed."""
        if estimates:
            return self.usage
        if self._streamed is None:
            return usage_of(self.response)
        usage: Usage = self._streamed.usage_of(self.response, *self._asked)
        return usage

    @property
    def usage(self) -> Usage:
        """What was reported; where that is unclear, at least an estimate if the call is billed."""
        if self._usage is None:
            usage = self.recorded(False)
            if self.billed and usage.status in usage.UNCLEAR:
                from budget_core.usage_estimate import at_least_estimated  # for the first of those

                usage = at_least_estimated(usage, self.response, *self._asked)
            self._usage = usage
        return self._usage

    @property
    def estimated(self) -> bool:
        """Whether the call may have used something else than was measured."""
        return self.billed and (self.failed or self.usage.status != Usage.MEASURED)

    def raise_to(self, tokens: int) -> None:
        """Raise the usage to at least the tokens that were held for a call that broke off."""
        usage = self.usage
        if usage.total < tokens:
            from budget_core.usage_estimate import estimated  # loaded for the first of those

            prompt = min(usage.input or 0, tokens)
            self._usage = estimated(prompt, tokens - prompt)

    def cost(self, price: "CallPrice | None") -> "tuple[int | None, bool]":
        """Return the nano-USD of the call, `None` if unknown, and whether that is all.

        The model that answered is charged for, as far as `price` knows it. What the provider says
        it billed counts where that is more; above nine million dollars it is a mistake, and what
        was billed is unknown.
        """
        if not self.billed:
            return None if price is None else 0, True
        cost, is_all, response = None, False, self.response
        if price is not None:
            model = getattr(response, "model", None)
            if model:
                price = price.answered_by(model)
            tier = getattr(response, "service_tier", None) or self._tier
            cost, is_all = price.cost_of(self.usage, tier)
        reported = getattr(response, "cost", None)
        billed = 0 if reported is None else _in_nano(reported)
        if billed is None:
            return cost, False
        return (billed, True) if billed and billed >= (cost or 0) else (cost, is_all)


def _in_nano(usd: "Any") -> "int | None":
    """Return reported dollars as nano-USD, `None` for too many, 0 for any other value."""
    if not isinstance(usd, (int, float)) or not usd > 0:
        return 0
    if usd > _MOST_USD:
        return None
    from budget_core.money import in_nano  # loaded for the first reported cost

    try:
        return in_nano("cost", usd)
    except ValueError:
        return 0


def is_closing() -> bool:
    """Tell whether a coroutine is being closed; always `False` on a runtime that does not tell."""
    handled: Any = getattr(sys, "exc_info", None)
    return handled is not None and handled()[0] is GeneratorExit

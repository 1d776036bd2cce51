"""Record what a call through the proxy is charged."""

from typing import Any

from budget_core.call import Call
from budget_core.settlement import Settlement
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel


class RecordedCall:
    """The observer of one call: it adds to a record, by model, what the call is charged.

    That is the charge of the innermost account; without an account, what the call used.
    """

    def __init__(self, record: UsageByModel) -> None:
        self._record = record
        self._call: Call | None = None

    @property
    def may_be_sent(self) -> bool:
        """Whether the call was admitted, and so may cost something."""
        return self._call is not None and self._call.is_admitted

    async def hold(self, call: Call) -> Call:
        """Note the call, and return it: nothing is held."""
        self._call = call
        return call

    async def settle(self, call: Call, outcome: Settlement) -> None:
        """Record a call that may cost something."""
        if not outcome.billed:
            return
        usage, hold = outcome.usage, _innermost(call)
        if hold is None:
            tokens, (cost, is_priced) = usage.total, outcome.cost(None)
        else:
            tokens, cost = hold.charged.get("tokens", usage.total), hold.charged.get("nano_usd")
            is_priced = hold.priced
        prompt = usage.input or 0
        used = ModelUsage(
            calls=1,
            input=prompt,
            output=max(0, tokens - prompt),
            cached=usage.cached,
            nano_usd=cost or 0,
            estimated=int(outcome.estimated),
            unpriced=int(not is_priced),
        )
        self._record.add(call.model or "", used)


def _innermost(call: Call) -> Any:
    """Return the hold of the innermost account that charged a call; `None` without one."""
    return next((hold for _, hold in reversed(call.held[1:]) if hold.charged is not None), None)

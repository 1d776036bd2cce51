"""The models that may answer a call, and its price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from budget_core.prices import price_of
from budget_core.usage import Usage, read_usage
from budget_cpython.prices.price_table import dearest_in
from budget_cpython.process_state import DEPLOYED

_MOST_DEPLOYED = 1_000


@dataclass(frozen=True)
class Answerers:
    """The models that may answer a call.

    - `vendor`: the provider that the call is sent to, by its id in genai-prices; `None` if unknown.
    - `models`: all models that the request names, where any of them may answer.
    - `units`: what is billed beside tokens, by genai-prices' names, as `input_characters`.
    - `deployed_at`: the server, where the request names one of its deployments and no model.
    """

    vendor: str | None = None
    models: tuple[str, ...] = ()
    deployed_at: str | None = None
    units: tuple[tuple[str, int], ...] = ()

    def at(self, vendor: str | None, deployed_at: str | None = None) -> "Answerers":
        """Return the same models at a vendor."""
        return replace(self, vendor=vendor or self.vendor, deployed_at=deployed_at)

    def price(self, prices: Any, model: str) -> "CallPrice | None":
        """Return the price of a call by a table: that of the dearest model that may answer.

        `None` if one of them has no price.
        """
        if self.deployed_at is not None:
            found = [self._of_deployment(prices, model)]
        else:
            names = self.models if model in self.models else (model,)
            found = [price_of(prices, name, self.vendor) for name in names]
        return None if None in found else CallPrice(self, prices, model, found)

    def _of_deployment(self, prices: Any, name: str) -> Any:
        """Return the price of a deployment's model; while that is unknown, the vendor's highest."""
        model = getattr(prices, "deployments", {}).get(name)
        own = getattr(prices, "own", prices)
        if model is None and hasattr(own, "keys") and price_of(own, name) is not None:
            return price_of(own, name)
        model = model or DEPLOYED.get((self.deployed_at or "", name))
        if model is not None:
            return price_of(prices, model, self.vendor)
        return dearest_in(prices, self.vendor)

    def learn(self, asked: str, answered: str) -> None:
        """Note which model answers for a deployment."""
        if self.deployed_at is not None:
            if len(DEPLOYED) >= _MOST_DEPLOYED:
                DEPLOYED.clear()
            DEPLOYED[self.deployed_at, asked] = answered


THE_MODEL: Final = Answerers()  # that is asked for, wherever it is


class CallPrice:
    """The price of one call: the dearest of some, until its answer says which model it is.

    It has the methods of a `Price`.
    """

    def __init__(self, answerers: Answerers, prices: Any, model: str, found: Sequence[Any]) -> None:
        self._answerers = answerers
        self._prices = prices
        self._model = model
        self._found = found

    def cost(self, *tokens: int) -> int:
        """Return the nano-USD of a call, rounded up."""
        most: int = max(price.cost(*tokens) + self._of_units(price)[0] for price in self._found)
        return most

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return the completion tokens that money buys after a prompt; `None`: any number."""
        left = nano_usd - max(self._of_units(price)[0] for price in self._found)
        counts = [price.affordable(left, prompt) for price in self._found]
        return min((count for count in counts if count is not None), default=None)

    def cost_of(self, usage: Any, tier: Any = None) -> tuple[int, bool]:
        """Return the nano-USD of a call, and whether it is billed for nothing else."""
        found = [self._cost_of(price, usage, tier) for price in self._found]
        return max(cost for cost, _ in found), all(full for _, full in found)

    def _cost_of(self, price: Any, usage: Any, tier: Any) -> tuple[int, bool]:
        cost, full = price.cost_of(usage, tier)
        if read_usage(usage).status == Usage.MEASURED:
            return cost, full
        units, has_all = self._of_units(price)
        return cost + units, full or has_all

    def _of_units(self, price: Any) -> tuple[int, bool]:
        """Return the nano-USD of what is billed beside tokens, and whether it has a price."""
        units = self._answerers.units
        if not units or not hasattr(price, "cost_of_units"):
            return 0, False
        cost, has_all = price.cost_of_units(**dict(units))
        return cost, has_all

    def answered_by(self, model: str) -> Any:
        """Return the price of the model that answered; this one where that has none."""
        if model == self._model and len(self._found) == 1 and not self._is_guess():
            return self
        found = price_of(self._prices, model, self._answerers.vendor)
        if found is None:
            return self
        self._answerers.learn(self._model, model)
        return found

    def _is_guess(self) -> bool:
        """Tell whether the price is that of a deployment of which the user says no model."""
        known = getattr(self._prices, "deployments", {})
        return self._answerers.deployed_at is not None and self._model not in known

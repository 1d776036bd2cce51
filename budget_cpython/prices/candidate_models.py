"""The models that may answer a call, and its price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from budget_core.prices import TablePrice, price_of
from budget_core.usage import Usage, read_usage
from budget_cpython.context.process_state import DEPLOYED
from budget_cpython.prices.price_table import dearest_in

_MOST_DEPLOYED = 1_000


@dataclass(frozen=True)
class CandidateModels:
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

    def at(self, vendor: str | None, deployed_at: str | None = None) -> "CandidateModels":
        """Return the same models at a vendor."""
        return replace(self, vendor=vendor or self.vendor, deployed_at=deployed_at)

    def price(self, prices: Any, model: str) -> TablePrice | None:
        """Return the price of a call by a table: that of the dearest model that may answer.

        `None` if one of them has no price.
        """
        if self.deployed_at is not None:
            return self._of_deployment(prices, model)
        if len(self.models) > 1 and model in self.models:
            found = [price_of(prices, name, self.vendor) for name in self.models]
            return None if None in found else self._dearest(prices, "", found)
        price = price_of(prices, model, self.vendor)
        if price is None:
            return None
        if self.units:
            return self._dearest(prices, model, [price])
        made = TablePrice(prices, model, price, self.vendor)
        plain = getattr(price, "plain", None)
        if plain is not None:
            made.cost, made.affordable = plain.cost, plain.affordable
        return made

    def _dearest(self, prices: Any, asked: str, found: list[Any]) -> TablePrice:
        return TablePrice(prices, asked, DearestPrice(found, self.units), self.vendor)

    def _of_deployment(self, prices: Any, name: str) -> TablePrice | None:
        """Return the price of a deployment's model; while that is unknown, the vendor's highest."""
        place = (self.deployed_at or "", name)
        known = getattr(prices, "deployments", {}).get(name)
        own = getattr(prices, "own", prices)
        price = price_of(own, name) if known is None and hasattr(own, "keys") else None
        if price is None:
            model = known or DEPLOYED.get(place)
            price = (
                price_of(prices, model, self.vendor) if model else dearest_in(prices, self.vendor)
            )
        if price is None:
            return None
        asked = "" if known is None else name
        dearest = DearestPrice([price], self.units)
        return DeploymentPrice(prices, asked, dearest, self.vendor, place)


class DeploymentPrice(TablePrice):
    """The price of one call to a deployment: its answer says which model that has.

    `place` is its server with its name.
    """

    def __init__(
        self, prices: Any, asked: str, price: Any, vendor: str | None, place: tuple[str, str]
    ) -> None:
        super().__init__(prices, asked, price, vendor)
        self._place = place

    def answered_by(self, model: str) -> Any:
        """Return the price of the model that answered, and note that the deployment has it."""
        found = super().answered_by(model)
        if found is not self:
            if len(DEPLOYED) >= _MOST_DEPLOYED:
                DEPLOYED.clear()
            DEPLOYED[self._place] = model
        return found


class DearestPrice:
    """The highest of some prices of a call, with the units that it is billed for beside tokens."""

    def __init__(self, prices: Sequence[Any], units: tuple[tuple[str, int], ...]) -> None:
        self._prices = prices
        self._units = units

    def cost(self, *tokens: int) -> int:
        """Return the nano-USD of a call, rounded up."""
        most: int = max(price.cost(*tokens) + self._of_units(price)[0] for price in self._prices)
        return most

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return the completion tokens that money buys after a prompt; `None`: any number."""
        left = nano_usd - max(self._of_units(price)[0] for price in self._prices)
        counts = [price.affordable(left, prompt) for price in self._prices]
        return min((count for count in counts if count is not None), default=None)

    def cost_of(self, usage: Any, tier: Any = None) -> tuple[int, bool]:
        """Return the nano-USD of a call, and whether it is billed for nothing else."""
        usage = read_usage(usage)
        found = [self._cost_of(price, usage, tier) for price in self._prices]
        return max(cost for cost, _ in found), all(full for _, full in found)

    def _cost_of(self, price: Any, usage: Usage, tier: Any) -> tuple[int, bool]:
        cost, full = price.cost_of(usage, tier)
        if usage.status == Usage.MEASURED:
            return cost, full
        units, has_all = self._of_units(price)
        return cost + units, full or has_all

    def _of_units(self, price: Any) -> tuple[int, bool]:
        """Return the nano-USD of what is billed beside tokens, and whether it has a price."""
        if not self._units or not hasattr(price, "cost_of_units"):
            return 0, False
        cost, has_all = price.cost_of_units(**dict(self._units))
        return cost, has_all

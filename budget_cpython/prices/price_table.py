"""A table of prices: a user's own, then those of a list."""

import re
from collections.abc import Mapping

from budget_core.errors import refuse
from budget_core.prices import price_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.prices import Price

NEEDS_PRICES = "a limit on money needs prices: pip install 'microbudget[prices]', or give prices="
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{4})$")


class PriceTable:
    """Prices by model: `own`, then those that are `listed`.

    A dated model, `gpt-4o-2024-08-06`, has the own price of `gpt-4o` unless it has one itself.
    `deployments` are the models of a cloud's deployments, by the names that these have there.
    """

    def __init__(
        self,
        own: "Mapping[str, Price]",
        listed: "Any" = None,
        deployments: Mapping[str, str] | None = None,
    ) -> None:
        self.own = own
        self.deployments = deployments or {}
        self.listed = listed

    def get(self, model: str) -> "Any":
        """Return a model's price, or `None` if it is not known."""
        found = price_of(self.own, model) or price_of(self.own, _DATE.sub("", model))
        return self.listed.get(model) if found is None and self.listed is not None else found

    def dearest(self, vendor: str | None) -> "Any":
        """Return the highest price of a vendor's models, or `None` if none is known."""
        return dearest_of([*self.own.values(), dearest_in(self.listed, vendor)])


def dearest_in(prices: "Any", vendor: str | None) -> "Any":
    """Return the highest price in a table, of a vendor's models where it knows vendors."""
    if hasattr(prices, "keys"):
        return dearest_of(prices.values())
    return prices.dearest(vendor) if hasattr(prices, "dearest") else None


def dearest_of(prices: "Any") -> "Any":
    """Return the price at which a million tokens in and out cost most, or `None` without any."""
    known = [price for price in prices if price is not None]
    return max(known, key=lambda price: price.cost(1_000_000, 1_000_000), default=None)


def with_deployments(prices: "Any", deployments: Mapping[str, str]) -> PriceTable:
    """Return a table with the models of a cloud's deployments; raises `ValueError`."""
    known = check_deployments(deployments)
    if isinstance(prices, PriceTable):
        return PriceTable(prices.own, prices.listed, {**prices.deployments, **known})
    if hasattr(prices, "keys"):
        return PriceTable(prices, None, known)
    return PriceTable({}, prices, known)


def check_deployments(value: "Any") -> Mapping[str, str]:
    """Accept models by the names of their deployments; raises `ValueError`."""
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(value[name], str) for name in value
    ):
        refuse("deployments", "models by name, as in {'my-gpt': 'gpt-4o'}", value)
    return value

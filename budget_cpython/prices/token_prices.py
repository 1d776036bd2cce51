"""The prices of tokens in genai-prices, as prices of the core: integers, and no search."""

from decimal import Decimal

from budget_core.prices import Price
from budget_cpython.vendors.units import UNITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from genai_prices.types import ModelPrice

_TOKENS = {  # the arguments of a `Price`
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
_REQUESTS = "requests_kcount"
_APART = frozenset(row.price for row in UNITS if row.apart)  # reports name these beside tokens


def token_prices(listed: "ModelPrice") -> tuple[tuple[int, Price], ...]:
    """Return the price of tokens after prompts longer than so many tokens, the longest first.

    There is none where a report's tokens do not tell what they cost: where reasoning has a price of
    its own, for example, or prompt or answer have none; and none finer than those of `Price`.
    """
    prices = {name: price for name, price in vars(listed).items() if price is not None}
    if not all(_is_told(name) for name in prices) or not {"input_mtok", "output_mtok"} <= {*prices}:
        return ()
    longer = {tier.start for price in prices.values() for tier in getattr(price, "tiers", ())}
    try:
        return tuple((least, _price(prices, least)) for least in sorted({-1, *longer})[::-1])
    except ValueError:
        return ()


def _is_told(name: str) -> bool:
    return name in _TOKENS or name == _REQUESTS or name in _APART


def _price(prices: "dict[str, Any]", longer: int) -> Price:
    found = {_TOKENS[name]: _in_tier(prices[name], longer) for name in _TOKENS if name in prices}
    return Price(**found, request=_in_tier(prices.get(_REQUESTS, Decimal(0)), longer) / 1000)


def _in_tier(price: "Any", longer: int) -> Decimal:
    """Return the price after a prompt of more than so many tokens."""
    tiers = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= longer]
    found: Decimal = tiers[-1] if tiers else getattr(price, "base", price)
    return found

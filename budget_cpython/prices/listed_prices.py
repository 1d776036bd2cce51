"""Prices from genai-prices, which knows most models of most providers; `pip install .[prices]`."""

import re
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

from budget_core.errors import refuse
from budget_core.prices import Price
from budget_core.usage import Usage, read_usage
from budget_cpython.prices.price_table import dearest_of
from budget_cpython.prices.token_prices import token_prices
from budget_cpython.vendors.usage import BilledUsage, billed_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from genai_prices.types import ModelPrice, PriceCalculation

_NANO = Decimal(1_000_000_000)
_MANY = 1_000_000
_STANDARD = (None, "", "standard", "default", "on_demand", "ON_DEMAND", "STANDARD")
_ANYWHERE = (None, "", "not_available", "global")  # regions that cost as the list says
_MOST_KNOWN = 1_000  # models by name
_PREFIX = re.compile("([^/:]+)[/:](.+)", re.DOTALL)


class ListedPrice:
    """The price of one model, by genai-prices: every unit, tariff and tier that it lists.

    Calls that are billed for plain tokens, as most are, cost what a `Price` of the core says;
    genai-prices calculates all others.
    """

    def __init__(self, table: "ListedPrices", model: str, provider_id: str | None) -> None:
        self._table = table
        self._model = model
        self._provider_id = provider_id
        self._provider = self._calculate({"input_tokens": 1, "output_tokens": 1}).provider
        self.vendor = self._provider.id
        self._snapshot: Any = None
        self._found: Any = None
        self._listed: ModelPrice | None = None
        self._steps: tuple[tuple[int, Price], ...] = ()

    def __repr__(self) -> str:
        return f"<ListedPrice: {self._model} of {self._provider.name}>"

    def cost(
        self, prompt: int, completion: int, cached: int = 0, written: int = 0, hour: int = 0
    ) -> int:
        """Return the nano-USD of a call, rounded up.

        `cached` tokens from a cache and those `written` to one are part of the prompt, those
        written for an `hour` are part of the written ones.
        """
        plain = self._of_tokens(prompt)
        if plain is not None:
            return plain.cost(prompt, completion, cached, written, hour)
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
        units = {
            "input_tokens": prompt,
            "output_tokens": completion,
            "cache_read_tokens": cached,
            "cache_write_tokens": written,
            "cache_write_1h_tokens": min(hour, written),
        }
        return _in_nano(self._calculate(units).total_price)

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return how many completion tokens that money buys after a prompt; `None` is any number.

        -1 if it does not buy the prompt.
        """
        plain = self._of_tokens(prompt)
        if plain is not None:
            return plain.affordable(nano_usd, prompt)
        base = self.cost(prompt, 0)
        many = self.cost(prompt, _MANY) - base
        if base > nano_usd:
            return -1
        if not many:
            return None
        tokens = (nano_usd - base) * _MANY // many + 1
        while tokens and self.cost(prompt, tokens) > nano_usd:
            tokens -= 1
        return tokens

    def cost_of(self, usage: "Any", tier: "Any" = None, *, batch: bool = False) -> tuple[int, bool]:
        """Return the nano-USD of a call, and whether it is billed for nothing else.

        `usage` is a `Usage`, or a provider's report: a dict, or an object of its SDK. Something
        else is a unit, a service `tier` or a `batch` for which the list has no price, and what is
        not known. A tier in the report takes the place of the argument.
        """
        usage = usage if isinstance(usage, Usage) else read_usage(usage)
        plain = None if batch else self._of_tokens(usage.input or 0)
        if plain is not None and (usage.report is None or not _has_iterations(usage.report)):
            cost, full = plain.cost_of(usage, tier)
            if full:
                return cost, True
        known = usage.status in (usage.MEASURED, usage.ESTIMATED)
        if usage.report is None and not usage.total:
            return 0, known  # nothing was used, or it is unknown
        usd, full = self._price_of_parts(billed_usage(usage), tier, batch)
        by_unit = usage.status == usage.MISSING and usd > 0  # seconds or pages in place of tokens
        return _in_nano(usd), full and (known or by_unit)

    def cost_of_units(self, **units: float) -> tuple[int, bool]:
        """Return the nano-USD of units by genai-prices' names, and whether all have a price.

        For calls without a report: `cost_of_units(input_characters=1_200)`, or `audio_seconds`,
        `input_document_pages`, `web_searches`.
        """
        found = self._calculate(units)
        return _in_nano(found.total_price), _covers(found, units)

    @property
    def plain(self) -> Price | None:
        """The present price of tokens alone, if it is one for prompts of any size."""
        steps = self._present()
        return steps[0][1] if len(steps) == 1 else None

    def _of_tokens(self, prompt: int) -> Price | None:
        """Return the present price of calls with such a prompt that use tokens alone, if any."""
        for longer, price in self._present():
            if prompt > longer:
                return price
        return None

    def _present(self) -> tuple[tuple[int, Price], ...]:
        """Return `token_prices` of now, converted again where the list or the time has others."""
        from genai_prices.data_snapshot import get_snapshot

        snapshot = get_snapshot()
        if snapshot is not self._snapshot:
            found = snapshot.find_provider_model(self._model, None, self._provider_id, None)
            self._snapshot, self._found = snapshot, found[1]
        elif not isinstance(self._found.prices, list):  # of any time
            return self._steps
        listed = self._found.get_prices(self._table.now() or datetime.now(UTC))
        if listed is not self._listed:
            self._listed, self._steps = listed, token_prices(listed)
        return self._steps

    def _price_of_parts(self, usage: BilledUsage, tier: "Any", batch: bool) -> tuple[Decimal, bool]:
        """Return the dollars of all calls that a usage stands for, and whether that is all."""
        cost, full = Decimal(0), usage.full
        for part in usage.parts or [usage]:
            tariffs = _tariffs(usage, part, tier, batch)
            price = self if part.model is None else self._table.get(part.model)
            found, whole = (price or self)._price_of(part, tariffs)
            cost += found
            full = full and whole and price is not None
        return cost, full

    def _price_of(self, part: BilledUsage, tariffs: dict[str, str]) -> tuple[Decimal, bool]:
        """Return the dollars of one call, and whether that is all."""
        units, full = _units_of(part, self._provider.id)
        try:
            found = self._calculate(units, tariffs)
        except ValueError:  # parts that are more than their whole
            return self._price_of_whole(part, tariffs), False
        embedded = part.total and part.input is None
        if embedded and found.model_price.output_mtok is None:
            units = {"input_tokens": part.total}  # an embedding's report has a total alone
            found = self._calculate(units, tariffs)
        return found.total_price, full and _covers(found, units) and _knows(found, tariffs)

    def _price_of_whole(self, usage: Usage, tariffs: dict[str, str] | None = None) -> Decimal:
        """Return the dollars of tokens whose parts are not known."""
        prompt = min(usage.total, usage.input or 0)
        units = {"input_tokens": prompt, "output_tokens": usage.total - prompt}
        return self._calculate(units, tariffs).total_price

    def _calculate(
        self, units: "Mapping[str, Any]", tariffs: dict[str, str] | None = None
    ) -> "PriceCalculation":
        from genai_prices import Usage as Units
        from genai_prices import calc_price

        return calc_price(
            Units(**units),
            self._model,
            provider_id=self._provider_id,
            genai_request_timestamp=self._table.now(),
            price_context=tariffs,
        )


class ListedPrices:
    """A table of prices for `Operative(prices=…)`: models by name, as genai-prices finds them.

    A name may begin with its provider, `openai/gpt-4o`; a bare one that several providers list, and
    none has made, costs what the dearest of them takes. `provider_id` is one of its providers, such
    as `"openai"`, for all names. Prices are those of the installed release at the time that `now`
    gives, the present unless given: nothing is fetched. Raises `ImportError` if genai-prices is not
    installed, and `ValueError` for a provider that it does not list.
    """

    def __init__(
        self, provider_id: str | None = None, now: "Callable[[], datetime] | None" = None
    ) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot  # fail now, not in the first call
        except ImportError as error:
            raise ImportError("ListedPrices needs genai-prices: pip install .[prices]") from error
        if provider_id is not None:
            try:
                get_snapshot().find_provider(None, provider_id, None)
            except (LookupError, AttributeError):
                refuse("provider_id", "a provider of genai-prices, such as 'openai'", provider_id)

        self._provider_id = provider_id
        self._now = now
        self._known: dict[str, ListedPrice | None] = {}
        self._dearest_of: dict[str | None, ListedPrice | None] = {}

    def now(self) -> "datetime | None":
        """Return the time whose prices count, `None` for the present."""
        return None if self._now is None else self._now()

    def get(self, model: str) -> ListedPrice | None:
        """Return a model's price, or `None` if it is not known."""
        if model not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[model] = self._find(model)
        return self._known[model]

    def dearest(self, vendor: str | None) -> ListedPrice | None:
        """Return the highest price of the models that a provider offers; `None` without any."""
        if vendor not in self._dearest_of:
            found: ListedPrice | None = dearest_of(self._offered(vendor))
            self._dearest_of[vendor] = found
        return self._dearest_of[vendor]

    def _offered(self, vendor: str | None) -> "Iterator[ListedPrice | None]":
        """Yield the prices of a provider's models, and of those that it takes from others."""
        from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

        known = get_snapshot().providers
        provider = None if vendor is None else find_provider_by_id(known, vendor)
        if provider is None:
            return
        makers = {provider.id, *(provider.fallback_model_providers or ())}
        for one in known:
            if one.id in makers:
                for model in one.models:
                    yield self._first([(model.id, one.id)])

    def _find(self, model: str) -> ListedPrice | None:
        whole, rests = (model, self._provider_id), _without_provider(model)
        if self._provider_id is None:
            found = self._first([*rests, whole])
            return self._highest(model) if found is None else found
        return self._first([whole, *((name, self._provider_id) for name, _ in rests)])

    def _first(self, readings: "Iterable[tuple[str, str | None]]") -> ListedPrice | None:
        for name, provider_id in readings:
            try:
                return ListedPrice(self, name, provider_id)
            except LookupError:
                pass
        return None

    def _highest(self, model: str) -> ListedPrice | None:
        """Return the highest price of the providers that list a model by exactly this name."""
        from genai_prices.data_snapshot import get_snapshot

        name = model.lower()
        found = [
            self._first([(model, provider.id)])
            for provider in get_snapshot().providers
            if any(_is_called(one.match, name) for one in provider.models)
        ]
        highest: ListedPrice | None = dearest_of(found)
        return highest


@lru_cache(_MOST_KNOWN)
def provider_at(url: str) -> str | None:
    """Return the provider, by its id in genai-prices, whose API has a URL; `None` if unknown."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    known = get_snapshot().providers
    return next((one.id for one in known if re.match(one.api_pattern, url)), None)


def _without_provider(model: str) -> "list[tuple[str, str]]":
    """Return the rest of a name with the provider that it begins with: `openai/…`, `openai:…`."""
    from genai_prices.data_snapshot import find_provider_by_id, get_snapshot

    found = _PREFIX.fullmatch(model)
    if found is None or find_provider_by_id(get_snapshot().providers, found[1]) is None:
        return []
    return [(found[2], found[1])]


def _is_called(match: "Any", name: str) -> bool:
    """Tell whether a rule of genai-prices lists exactly this name of a model."""
    if getattr(match, "equals", "").lower() == name:
        return True
    return any(_is_called(one, name) for one in getattr(match, "or_", ()))


def _units_of(part: BilledUsage, vendor: str) -> "tuple[dict[str, Any], bool]":
    """Return the units that a vendor bills a call in, by name, and whether these are all."""
    prompt = min(part.total, part.input or 0)
    units: dict[str, Any] = {
        "input_tokens": prompt,
        "output_tokens": part.total - prompt,
        "cache_read_tokens": min(part.cached, prompt),
        "cache_write_tokens": min(part.cache_written, prompt),
        "output_reasoning_tokens": min(part.reasoning, part.total - prompt),
    }
    full = part.full and part.region in _ANYWHERE
    adds_up = part.total == prompt + (part.output or 0)
    named = {"", *(row.where for row in part.units)}
    for row, count in part.units.items():
        if adds_up and row.beside in named and vendor.partition("_")[0] in row.vendors:
            units[row.unit] = units.get(row.unit, 0) + count
        elif row.apart and count:
            full = False
    return units, full


def _tariffs(usage: BilledUsage, part: BilledUsage, tier: "Any", batch: bool) -> dict[str, str]:
    """Return the tariffs of a call that are not the standard ones, in genai-prices' words."""
    tier = part.tier or usage.tier or tier or usage.traffic
    tariffs = {
        "service_tier": None if tier == "batch" else tier,
        "speed": part.speed or usage.speed,
        "processing": "batch" if batch or tier == "batch" else None,
    }
    return {name: str(tariffs[name]) for name in tariffs if tariffs[name] not in _STANDARD}


def _has_iterations(report: "Any") -> bool:
    """Tell whether a report lists calls, each of which may be of another model."""
    is_dict = isinstance(report, dict)
    return bool(report.get("iterations") if is_dict else getattr(report, "iterations", None))


def _covers(found: "PriceCalculation", units: "Mapping[str, Any]") -> bool:
    """Tell whether each unit has a price of its own, or is part of one that has."""
    from genai_prices.data_units import unit_data

    for name in units:
        sort = unit_data[name]["dimensions"].items()
        if units[name] and not any(
            unit["dimensions"].items() <= sort
            and getattr(found.model_price, unit["price_key"]) is not None
            for unit in unit_data.values()
        ):
            return False
    return True


def _knows(found: "PriceCalculation", tariffs: dict[str, str]) -> bool:
    """Tell whether a model's prices differ by each of the tariffs that a call was made at."""
    variants = found.model.price_variants or ()
    return all(
        any(variant.when.get(name) == tariffs[name] for variant in variants) for name in tariffs
    )


def _in_nano(usd: Decimal) -> int:
    return int((usd * _NANO).to_integral_value(ROUND_CEILING))

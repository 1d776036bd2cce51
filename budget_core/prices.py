"""What tokens cost, in whole numbers, and whether that is all that a call is billed for."""

from budget_core.errors import refuse
from budget_core.money import dollars, in_nano
from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Dollars

_MOST = 1_000_000_000_000  # millionths of a dollar
# The fields of reports that stand for no cost of their own, in one text each (a chip has room for
# few names): those of a report, of its details, of the entries of its lists, of `billed_units`.
_REPORT = (
    " prompt_tokens completion_tokens total_tokens input_tokens output_tokens reasoning_tokens "
    "cached_tokens cache_read_input_tokens cache_creation_input_tokens citation_tokens "
    "promptTokenCount candidatesTokenCount totalTokenCount thoughtsTokenCount "
    "toolUsePromptTokenCount cachedContentTokenCount prompt_token_count candidates_token_count "
    "total_token_count thoughts_token_count tool_use_prompt_token_count "
    "cached_content_token_count inputTokens outputTokens totalTokens cacheReadInputTokens "
    "cacheWriteInputTokens prompt_cache_hit_tokens prompt_cache_miss_tokens "
    "cached_prompt_text_tokens prompt_text_tokens estimated model object queue_time prompt_time "
    "completion_time total_time cost cost_details cost_in_usd_ticks tokens "
)
_DETAIL = (
    " cached_tokens cache_write_tokens reasoning_tokens thinking_tokens text_tokens "
    "accepted_prediction_tokens rejected_prediction_tokens ephemeral_5m_input_tokens "
    "ephemeral_1h_input_tokens ttl_30m_tokens web_fetch_requests "
)
_ENTRY = " tokenCount token_count inputTokens ttl "
_BILLED = " input_tokens output_tokens "
_STANDARD = (  # what names no tariff of its own
    " standard STANDARD default on_demand ON_DEMAND TEXT not_available global message "
    "compaction tokens duration "
)


class Price:
    """What a model's tokens cost: US dollars per million, as price lists have them.

    A price is decimal text such as `"0.075"`, a whole number, or a float, which is taken to the
    nearest millionth. `cached` is for prompt tokens read from a cache, `cache_write` for those
    written to one, `cache_write_1h` for those written for an hour: each as the one before unless
    given, and `cached` as `input`. `request` is what each call costs beside its tokens.

    A table of prices is a dict of them by model, or any object with such a `get(model)`. Raises
    `ValueError` for a price that is not from 0 to a million, and for text finer than a millionth of
    a dollar.
    """

    def __init__(
        self,
        input: "Dollars",
        output: "Dollars",
        cached: "Dollars | None" = None,
        cache_write: "Dollars | None" = None,
        cache_write_1h: "Dollars | None" = None,
        request: "Dollars" = 0,
    ) -> None:
        self._input = _micro("input", input)
        self._output = _micro("output", output)
        self._cached = self._input if cached is None else _micro("cached", cached)
        self._tariffs = cache_write is not None, cache_write_1h is not None
        self._written = self._input if cache_write is None else _micro("cache_write", cache_write)
        hour = self._written if cache_write_1h is None else _micro("cache_write_1h", cache_write_1h)
        self._hour = hour
        self._request = _micro("request", request) * 1000

    def __repr__(self) -> str:
        prices = f"{dollars(self._input * 1000)} in, {dollars(self._output * 1000)} out"
        return f"<Price: {prices} per million tokens>"

    def cost(
        self, prompt: int, completion: int, cached: int = 0, written: int = 0, hour: int = 0
    ) -> int:
        """Return the nano-USD of a call, rounded up.

        `cached` tokens from a cache and those `written` to one are part of the prompt, those
        written for an `hour` are part of the written ones.
        """
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
        hour = min(hour, written)
        micro = (prompt - cached - written) * self._input + cached * self._cached
        micro += (written - hour) * self._written + hour * self._hour + completion * self._output
        return -(-micro // 1000) + self._request

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return how many completion tokens that money buys after a prompt; `None`: any number.

        It is -1 if the money does not even buy the prompt.
        """
        left = (nano_usd - self._request) * 1000 - prompt * self._input
        if left < 0:
            return -1
        return left // self._output if self._output else None

    def cost_of(self, usage: "Any", tier: "Any" = None) -> "tuple[int, bool]":
        """Return the nano-USD of a call, and whether it is billed for nothing else.

        `usage` is a `Usage`, or a provider's report. Something else is a unit without a price here:
        audio and image tokens, searches, writes to a cache without their tariff, a service `tier`
        that is not the standard one, and what is not known. Tokens that may be input or output cost
        as the dearer.
        """
        usage = usage if isinstance(usage, Usage) else read_usage(usage)
        report, written, hour = usage.report, usage.cache_written, 0
        full = usage.status in (usage.MEASURED, usage.ESTIMATED)
        if report is None and not usage.total:
            return 0, full  # nothing was used, or it is unknown
        prompt = min(usage.total, usage.input or 0)
        if usage.input is None and usage.total:
            full = False
        if usage.input is None and usage.output is None and self._input > self._output:
            prompt = usage.total
            full = not self._output and usage.status == usage.MEASURED  # an embedding
        if report is not None:
            try:
                full = full and not has_more(report)
                hour = _for_an_hour(report)
            except Exception:  # noqa: BLE001 - a foreign report may raise anything, or have no end
                full = False
        if hour > written or (hour and not self._tariffs[1]):
            full = False
        if hour < written and not self._tariffs[0]:
            full = False
        cost = self.cost(prompt, usage.total - prompt, usage.cached, written, hour)
        return cost, full and (tier is None or not _is_special(tier))

    def answered_by(self, model: str) -> "Price":
        """Return this price: a table may know another for the model that answered."""
        return self


def price_of(prices: "Any", model: str, vendor: str | None = None) -> "Any":
    """Return a model's price from a table, or `None`: of its `vendor` first, then by its bare name.

    `openai/gpt-4o` is also looked up as `gpt-4o` in a dict; other tables read names as they do.
    Raises `ValueError` for an entry that is not a price.
    """
    name, slash = model if vendor is None else vendor + "/" + model, "/"
    while slash:
        price = prices.get(name)
        if price is not None:
            if not hasattr(price, "cost_of"):
                refuse("prices of " + model, "a Price", price)
            return price
        if name == model and not hasattr(prices, "keys"):
            break
        _, slash, name = name.partition("/")
    return None


class TablePrice:
    """The price of one call by a table: of the model that it asks for, until one has answered.

    It has the methods of that model's `Price`. `vendor` is the one whose names are looked up first,
    that of the price unless given.
    """

    def __init__(self, prices: "Any", asked: str, price: "Any", vendor: str | None = None) -> None:
        self.cost, self.affordable, self.cost_of = price.cost, price.affordable, price.cost_of
        self._prices = prices
        self._asked = asked
        self._price = price
        self._vendor = getattr(price, "vendor", None) if vendor is None else vendor

    def answered_by(self, model: str) -> "Any":
        """Return the price of the model that answered; this one where the table lacks it."""
        if model == self._asked:
            return self
        found = price_of(self._prices, model, self._vendor)
        if found is None and hasattr(self._price, "answered_by"):
            found = self._price.answered_by(model)
        return self if found is None or found is self._price else found


def call_price(prices: "Any", model: str) -> "TablePrice | None":
    """Return the price of a call to a model by a table, or `None`; raises as `price_of`."""
    price = price_of(prices, model)
    return None if price is None else TablePrice(prices, model, price)


def has_more(report: "Any", known: str = _REPORT) -> bool:
    """Tell whether something in a report is not zero, and not among what is `known` of it."""
    fields = report if isinstance(report, dict) else getattr(report, "__dict__", None)
    if fields is None:
        return True  # an object whose content is unknown
    extra = getattr(report, "model_extra", None)  # pydantic's
    if extra:
        fields = dict(fields, **extra)
    for name in fields:
        value = fields[name]
        if value and f" {name} " not in known and _is_more(name, value):
            return True
    return False


def _is_more(name: str, value: "Any") -> bool:
    if isinstance(value, str):
        return _is_special(value)
    if isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, (list, tuple)):
        known = _REPORT if name == "iterations" else _ENTRY
        return any(has_more(entry, known) for entry in value)
    return has_more(value, _BILLED if name == "billed_units" else _DETAIL)


def _is_special(tariff: "Any") -> bool:
    """Tell whether a text names a tariff, or a kind of token, that is not the usual one."""
    return isinstance(tariff, str) and tariff != "" and f" {tariff} " not in _STANDARD


def _for_an_hour(report: "Any") -> int:
    """Return the tokens that were written to a cache for an hour."""
    found = 0
    for part in _field(report, "iterations") or (report,):
        found += _field(_field(part, "cache_creation"), "ephemeral_1h_input_tokens") or 0
    for part in _field(report, "cacheDetails") or ():
        if _field(part, "ttl") == "1h":
            found += _field(part, "inputTokens") or 0
    return max(0, int(found))


def _field(value: "Any", name: str) -> "Any":
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _micro(name: str, usd: "Dollars") -> int:
    """Return millionths of a dollar."""
    micro = in_nano(name, usd, 6)
    if micro > _MOST:
        refuse(name, "at most a million dollars", usd)
    return micro

"""Prices from genai-prices, which knows most models of most providers; `pip install .[prices]`."""

from decimal import ROUND_CEILING, Decimal

_NANO = Decimal(1_000_000_000)
_MANY = 1_000_000


class ListedPrice:
    """What one model's tokens cost today, by genai-prices, tiers included."""

    def __init__(self, model: str, provider_id: str | None) -> None:
        self._model = model
        self._provider_id = provider_id

    def cost(self, prompt: int, completion: int, cached: int = 0, written: int = 0) -> int:
        """Return the nano-USD of a call, rounded up.

        `cached` and `written` tokens, from and to a cache, are part of the prompt.
        """
        from genai_prices import Usage, calc_price

        cached = min(cached, prompt)
        usage = Usage(
            input_tokens=prompt,
            output_tokens=completion,
            cache_read_tokens=cached,
            cache_write_tokens=min(written, prompt - cached),
        )
        price = calc_price(usage, self._model, provider_id=self._provider_id).total_price
        return int((price * _NANO).to_integral_value(ROUND_CEILING))

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return how many completion tokens that money buys after a prompt; `None` is any number.

        -1 if it does not buy the prompt.
        """
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


class ListedPrices:
    """A table of prices for `Operative(prices=…)`: models by name, as genai-prices finds them.

    `provider_id` is one of its providers, such as `"openai"`; without it the name alone decides.
    Prices are those of the installed release: nothing is fetched. Raises `ImportError` if
    genai-prices is not installed.
    """

    def __init__(self, provider_id: str | None = None) -> None:
        try:
            import genai_prices  # noqa: F401 - fail now, not in the first call
        except ImportError as error:
            raise ImportError("ListedPrices needs genai-prices: pip install .[prices]") from error

        self._provider_id = provider_id
        self._known: dict[str, ListedPrice | None] = {}

    def get(self, model: str) -> ListedPrice | None:
        """Return a model's price, or `None` if it is not known."""
        if model not in self._known:
            price = ListedPrice(model, self._provider_id)
            try:
                price.cost(1, 1)
                self._known[model] = price
            except LookupError:
                self._known[model] = None
        return self._known[model]

"""What tokens cost, in whole numbers."""

from budget_core.errors import refuse
from budget_core.money import in_nano

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.usage import Usage

_MOST = 1_000_000_000_000  # millionths of a dollar


class Price:
    """What a model's tokens cost: US dollars per million, as price lists have them.

    A price is decimal text such as `"0.075"`, a whole number, or a float, which is taken to the
    nearest millionth. `cached` is for prompt tokens read from a cache and `cache_write` for those
    written to one, both as `input` unless given. A table of prices is a dict of them by model, or
    any object with such a `get(model)`. Raises `ValueError` for a price that is not from 0 to a
    million, and for text finer than a millionth of a dollar.
    """

    def __init__(
        self,
        input: "float | str",
        output: "float | str",
        cached: "float | str | None" = None,
        cache_write: "float | str | None" = None,
    ) -> None:
        self._input = _micro("input", input)
        self._output = _micro("output", output)
        self._cached = self._input if cached is None else _micro("cached", cached)
        self._written = self._input if cache_write is None else _micro("cache_write", cache_write)

    def cost(self, prompt: int, completion: int, cached: int = 0, written: int = 0) -> int:
        """Return the nano-USD of a call, rounded up.

        `cached` and `written` tokens, from and to a cache, are part of the prompt.
        """
        cached = min(cached, prompt)
        written = min(written, prompt - cached)
        plain = prompt - cached - written
        micro = plain * self._input + cached * self._cached + written * self._written
        micro += completion * self._output
        return -(-micro // 1000)

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return how many completion tokens that money buys after a prompt; `None`: any number.

        It is -1 if the money does not even buy the prompt.
        """
        left = nano_usd * 1000 - prompt * self._input
        if left < 0:
            return -1
        return left // self._output if self._output else None


def cost_of_usage(usage: "Usage", price: "Price") -> int:
    """Return the nano-USD of a call; tokens that are not known to be input cost as output."""
    prompt = min(usage.total, usage.input or 0)
    written = (usage.cache_written,) if usage.cache_written else ()
    return max(0, price.cost(prompt, usage.total - prompt, usage.cached, *written))


def _micro(name: str, usd: "float | str") -> int:
    """Return millionths of a dollar."""
    micro = in_nano(name, usd, 6)
    if micro > _MOST:
        refuse(name, "at most a million dollars", usd)
    return micro

"""How long an answer may be: what a budget can afford of it, and what is expected of a model."""

from budget_core.ledger.checks import MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import CallPrice

ANSWER = 4096  # tokens of an answer, at the least where so many are free
_SHARE = 8  # the part of what is free that an answer may have
_MOST_EXPECTED = 64  # paths and models of which it is known how long answers are


class ExpectedAnswers:
    """How long answers are, by account and model, as this process has seen it."""

    def __init__(self) -> None:
        self._lengths: dict[tuple[str, str], int] = {}

    def get(self, place: "tuple[str, str]") -> int:
        """Return the expected length in 256ths of a token; 0 if it is not known."""
        return self._lengths.get(place, 0)

    def learn(self, place: "tuple[str, str]", answer: int, was_cut: bool) -> None:
        """Note how long an answer was: what is expected sinks slowly from the longest one."""
        known = self._lengths.get(place, 0)
        if was_cut:
            answer += answer // 4 + 1  # or more: the answer was cut
        if place not in self._lengths and len(self._lengths) >= _MOST_EXPECTED:
            self._lengths.clear()
        self._lengths[place] = max(answer << 8, known - (known >> 8))


def share(free: int, calls: int, longest: int) -> int:
    """Return the limit of an answer that has none, beside so many calls in flight.

    It is an eighth of the tokens that are free, divided by the calls with this one, at most the
    `longest` answer of the model, but at least 4,096 or all of them.
    """
    return min(free, max(ANSWER, min(longest, free // (_SHARE * (1 + calls)))))


def amounts(prompt: int, limit: int | None, price: "CallPrice | None" = None) -> "dict[str, Any]":
    """Return the most that a call of that prompt and answer can use, by axis.

    Of an answer without a limit it is `None` where that depends on the answer's length.
    """
    found = {"tokens": None if limit is None else min(MOST, prompt + limit), "calls": 1}
    if price is not None:
        found["nano_usd"] = min(MOST, _most_of(price, prompt, limit or 0))
        if limit is None and _most_of(price, prompt, ANSWER) > _most_of(price, prompt, 0):
            found["nano_usd"] = None
        elif not found["nano_usd"]:
            del found["nano_usd"]  # a debt stops nothing that is free
    return found


def fitting(axis: str, left: int, prompt: int, price: "CallPrice | None") -> int:
    """Return the longest answer to a prompt that what is left on an axis allows."""
    if axis == "tokens":
        return left - prompt
    if axis == "nano_usd" and price is not None:
        dearer = _most_of(price, prompt, 0) - price.cost(prompt, 0)
        found = price.affordable(left - dearer, prompt)
        return MOST if found is None else found
    return 0


def _most_of(price: "CallPrice", prompt: int, limit: int) -> int:
    """Return the most that a call can cost: writing the prompt to a cache may be dearer."""
    return max(price.cost(prompt, limit), price.cost(prompt, limit, 0, prompt))

"""Amounts, limits and times as operators read them."""

from collections.abc import Iterable

from budget_core.ledger.checks import AXES
from budget_core.ledger.window_words import window_in_words
from budget_core.money import dollars
from budget_cpython.ledger.limit_words import TOOL_CALLS

_CENT = 10_000_000  # nano-dollars
_DOLLAR = 100 * _CENT
_SCALES = ((1_000_000, "M"), (1_000, "k"))
_SHORT = 100_000  # from here on a count is in thousands or more


def axis_words(axis: str) -> str:
    """Return what an axis counts, as in a line of limits: `dollars`, `calls`, `tool:search`."""
    if axis == "nano_usd":
        return "dollars"
    return axis if axis in AXES or axis == TOOL_CALLS else f"tool:{axis}"


def short_amount(axis: str, amount: int) -> str:
    """Return an amount without its unit, as in `$12.34`, `$0.0027`, `1,234` and `1.5M`.

    Dollars are rounded to cents, below one dollar to a hundredth of that. Counts from 100,000 on
    have up to two decimals of a thousand or a million, and are rounded down.
    """
    if axis == "nano_usd":
        unit = _CENT if abs(amount) >= _DOLLAR else _CENT // 100
        if 0 < amount < unit:
            return f"<{dollars(unit)}"
        text = dollars((amount + unit // 2) // unit * unit)
        whole, _, decimals = text.partition(".")
        return f"{int(whole[1:]):,}".join(("$", f".{decimals}")) if amount > 0 else text
    if amount < _SHORT:
        return f"{amount:,}"
    size, letter = next(scale for scale in _SCALES if amount >= scale[0])
    count, rest = divmod(amount * 100 // size, 100)
    decimals = f".{rest:02}".rstrip("0").rstrip(".")
    return f"{count:,}{decimals}{letter}"


def amount_words(axis: str, amount: int) -> str:
    """Return an amount with its unit, as in `$12.34`, `1,234 calls` and `3 tool:search`."""
    shown = short_amount(axis, amount)
    return shown if axis == "nano_usd" else f"{shown} {axis_words(axis)}"


def limit_text(axis: str, cap: int | None, window: str) -> str:
    """Return a limit as `parse_limits` reads it, as in `$5/day`, `2M tokens` or `9 calls/10 min`.

    An unlimited one, which no line can say, is `calls/day without limit`.
    """
    per = "" if window == "run" else f"/{window_in_words(window)}"
    if cap is None:
        return f"{axis_words(axis)}{per} without limit"
    if axis == "nano_usd":
        text = dollars(cap)
        return (text.removesuffix(".00")) + per
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if cap >= _SHORT and cap % size == 0:
            return f"{cap // size}{letter} {axis_words(axis)}{per}"
    return f"{cap} {axis_words(axis)}{per}"


def limits_text(limits: Iterable[tuple[str, int | None, str]]) -> str:
    """Return limits, each an axis, a cap and a window, on a line; `no limits` without any."""
    return " + ".join(limit_text(*one) for one in limits) or "no limits"

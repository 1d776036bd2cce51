"""Amounts, limits and times as operators read them."""

import time
from collections.abc import Iterable

from budget_core.ledger.checks import AXES
from budget_core.ledger.window_words import window_in_words
from budget_core.money import dollars
from budget_cpython.ledger.limit_words import TOOL_CALLS

_CENT = 10_000_000  # nano-dollars
_DIME = 10 * _CENT
_SCALES = ((1_000_000, "M"), (1_000, "k"))
_SHORT = 100_000  # from here on a count is in thousands or more


def axis_words(axis: str) -> str:
    """Return the name of an axis in a line of limits: `dollars`, `calls`, `tool:search`."""
    if axis == "nano_usd":
        return "dollars"
    return axis if axis in AXES or axis == TOOL_CALLS else f"tool:{axis}"


def short_amount(axis: str, amount: int) -> str:
    """Return an amount without its unit, as in `$12.34`, `$0.0027`, `1,234` and `1.5M`.

    All is rounded down: dollars to cents, below ten cents to a hundredth of that; counts from
    100,000 on to two decimals of a thousand or a million.
    """
    if axis == "nano_usd":
        unit = _CENT if abs(amount) >= _DIME else _CENT // 100
        if 0 < amount < unit:
            return f"<{dollars(unit)}"
        text = dollars(amount // unit * unit)
        whole, _, decimals = text.partition(".")
        return f"{int(whole[1:]):,}".join(("$", f".{decimals}")) if amount > 0 else text
    if amount < _SHORT:
        return f"{amount:,}"
    size, letter = next(scale for scale in _SCALES if amount >= scale[0])
    return f"{amount // size:,}{_decimals(amount, size)}{letter}"


def amount_words(axis: str, amount: int) -> str:
    """Return an amount with its unit, as in `$12.34`, `1 call` and `3 tool:search`."""
    shown = short_amount(axis, amount)
    return shown if axis == "nano_usd" else f"{shown} {_counted(axis, amount)}"


def limit_text(axis: str, cap: int | None, window: str) -> str:
    """Return a limit as `parse_limits` reads it, as in `$5/day`, `1.5M tokens`, `9 calls/10 min`.

    An unlimited one, which no line can say, is `all calls/day`.
    """
    per = "" if window == "run" else f"/{window_in_words(window)}"
    if cap is None:
        return f"all {axis_words(axis)}{per}"
    if axis == "nano_usd":
        return dollars(cap).removesuffix(".00") + per
    text = str(cap)
    for size, letter in _SCALES:
        if cap >= max(size, _SHORT) and cap * 100 % size == 0:
            text = f"{cap // size}{_decimals(cap, size)}{letter}"
            break
    return f"{text} {_counted(axis, cap)}{per}"


def _counted(axis: str, amount: int) -> str:
    words = axis_words(axis)
    return words.removesuffix("s") if amount == 1 and not words.startswith("tool:") else words


def _decimals(amount: int, size: int) -> str:
    """Return up to two decimals of an amount in units of a size, rounded down."""
    return f".{amount * 100 // size % 100:02}".rstrip("0").rstrip(".")


def limits_text(limits: Iterable[tuple[str, int | None, str]]) -> str:
    """Return limits, each an axis, a cap and a window, on a line; `no limits` without any."""
    return " + ".join(limit_text(*one) for one in limits) or "no limits"


def duration(seconds: float) -> str:
    """Return a time in words, as in `45 s`, `12 min` and `3 h 5 min`, rounded down."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole // 60 % 60} min"


def time_text(at: int) -> str:
    """Return a Unix second as ISO 8601 and RFC 3339 have it, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

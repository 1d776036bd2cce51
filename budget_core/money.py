"""Dollars at the edge: text, whole numbers and floats to nano-USD (billionths), and back."""

from budget_core.errors import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DIGITS = "0123456789"
_LONGEST = 40
_SINGLE = float("1.00000001") == 1  # floats have 32 bits, and print a seventh digit that is wrong


def in_nano(name: str, usd: "Any", places: int = 9) -> int:
    """Return dollars as whole nano-USD, or as whole units of so many decimal `places`.

    Text such as `"0.50"`, a `Decimal` and a whole number are taken exactly. A float is taken as
    it prints, to six digits where floats have 32 bits, as on most chips, and rounded to the nearest
    unit. Raises `ValueError` for anything else, for text that is finer than the unit, and for a
    float that is less than one.
    """
    exact = isinstance(usd, str) or hasattr(usd, "as_tuple")
    if exact:
        text, exponent = usd if isinstance(usd, str) else f"{usd:f}", ""
    elif isinstance(usd, (int, float)) and not isinstance(usd, bool):
        single = _SINGLE and isinstance(usd, float)
        text, _, exponent = (f"{usd:.6g}" if single else repr(usd)).partition("e")
    else:
        text, exponent = "", ""
    whole, _, part = text.partition(".")
    digits = whole + part
    if not 0 < len(digits) <= _LONGEST or digits.strip(_DIGITS) or "." in part:
        refuse(name, 'dollars, such as 0.5 or "0.50"', usd)
    kept = len(whole) + int(exponent or 0) + places
    digits = "0" * -kept + digits + "0" * (kept - len(digits))
    units = int(digits[: max(0, kept)] or "0")
    rest = digits[max(0, kept) :]
    if rest.strip("0") and (exact or not units):
        refuse(name, f"dollars with at most {places} decimals", usd)
    return units + (rest[:1] >= "5")


def dollars(nano_usd: int) -> str:
    """Return nano-USD as exact dollars: two decimals, or as many as it takes, as `$0.0027`."""
    whole, rest = divmod(abs(nano_usd), 1_000_000_000)
    cents = f"{rest:09}".rstrip("0")
    sign = "-" if nano_usd < 0 else ""
    return f"{sign}${whole}.{cents}" + "0" * (2 - len(cents))

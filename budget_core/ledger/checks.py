"""The checks of paths, axes, keys and amounts."""

from budget_core.errors import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = (1 << 53) - 1  # of a cap and of one operation; sums have no bound
AXES = ("tokens", "calls", "nano_usd")  # on which amounts are counted wherever a limit is
MAX_DEPTH = 8
MAX_LIMITS = 16  # of an account, and axes of an operation
MAX_SEGMENT = 64
MAX_KEY = 200
MOST_BUCKETS = 60  # of a rolling window
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SEGMENT = LETTERS + ".@+="
_PRINTABLE = _SEGMENT + "!\"#$%&'()*,/:;<>?[\\]^`{|}~"


def check_path(path: "Any") -> str:
    """Accept an account's path: one to eight segments joined by `/`, the widest first.

    A segment is up to 64 ASCII letters, digits and `_ - . @ + =`, and not dots only.
    """
    segments = path.split("/") if isinstance(path, str) and len(path) < 1 << 10 else []
    good = 0 < len(segments) <= MAX_DEPTH
    for one in segments:
        if len(one) > MAX_SEGMENT or one.strip(_SEGMENT) or not one.strip("."):
            good = False
    if not good:
        text = (
            f"1 to {MAX_DEPTH} segments joined by '/', each of up to {MAX_SEGMENT} letters, digits "
            "and _-.@+=, and not dots only"
        )
        refuse("path", text, path if isinstance(path, str) and len(path) < 200 else type(path))
    return _plain(path)


def chain(path: str) -> "list[str]":
    """Return a path and all above it, the widest first."""
    found = path.split("/")
    for at in range(1, len(found)):
        found[at] = found[at - 1] + "/" + found[at]
    return found


def root(path: str) -> str:
    """Return the first segment of a path."""
    return path.partition("/")[0]


def check_axis(axis: "Any") -> str:
    """Accept the name of an axis: up to 64 ASCII letters, digits, `_` and `-`."""
    if not (isinstance(axis, str) and 0 < len(axis) <= MAX_SEGMENT and not axis.strip(LETTERS)):
        refuse("axis", f"up to {MAX_SEGMENT} letters, digits, _ and -", axis)
    return _plain(axis)


def check_key(key: "Any") -> str:
    """Accept a key: up to 200 printable ASCII characters without blanks, the first not `#`."""
    plain = isinstance(key, str) and 0 < len(key) <= MAX_KEY and key[0] != "#"
    if not plain or key.strip(_PRINTABLE):
        refuse("key", f"up to {MAX_KEY} printable ASCII characters, no blank, no '#' first", key)
    return _plain(key)


def check_amount(name: str, value: "Any") -> int:
    """Accept a whole number from 0 to 2**53 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        refuse(name, "a whole number from 0 to 2**53 - 1", value)
    return int(value)


def check_amounts(amounts: "Any", unbounded: bool = False) -> "dict[str, Any]":
    """Accept amounts of up to 16 axes, and return a copy of them.

    Dollars on `usd` become nano-USD. With `unbounded`, one may be `None`: how much that will be is
    not known.
    """
    if not isinstance(amounts, dict):
        refuse("amounts", "a dict of whole numbers by axis", amounts)
    if len(amounts) > MAX_LIMITS:
        raise ValueError(f"amounts must be of at most {MAX_LIMITS} axes, not {len(amounts)}")
    found = {}
    for axis in amounts:
        value = amounts[axis]
        if axis == "usd":
            if "nano_usd" in amounts:
                raise ValueError("amounts must be of usd or nano_usd, not of both")
            axis = "nano_usd"
            if value is not None:
                value = in_nano_usd("the amount of usd", value)
        elif axis.__class__ is not str:
            axis = check_axis(axis)
        if (value.__class__ is not int or not 0 <= value <= MOST) and not (
            unbounded and value is None
        ):
            value = check_amount("the amount of " + check_axis(axis), value)
        found[axis] = value
    return found


def in_nano_usd(name: str, usd: "Any") -> int:
    """Return dollars as nano-USD; raises `ValueError` as `money.in_nano` does."""
    from budget_core.money import in_nano  # loaded for the first amount in dollars

    return in_nano(name, usd)


def _plain(text: str) -> str:
    """Return a plain string: members of an `Enum` print as something else."""
    return text if text.__class__ is str else "".join(text)

"""Name accounts, axes, keys and amounts, and say what an account may use."""

from budget_core.errors import refuse
from budget_core.ledger.window import parse_window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.ledger.window import Window

MOST = (1 << 53) - 1  # of a cap and of one operation; sums have no bound
AXES = ("tokens", "calls", "nano_usd")  # on which amounts are counted wherever a limit is
MAX_DEPTH = 8
MAX_LIMITS = 16  # of an account, and axes of an operation
MAX_SEGMENT = 64
MAX_KEY = 200
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SEGMENT = LETTERS + ".@+="
_PRINTABLE = _SEGMENT + "!\"#$%&'()*,/:;<>?[\\]^`{|}~"


class Limit:
    """What an account may use of one axis in one window.

    - `axis`: what is counted, such as `tokens` or `calls`: up to 64 letters, digits, `_` and `-`.
      Money is in dollars on `usd`, such as `"5.00"`, and is counted on `nano_usd`.
    - `cap`: up to 2**53 - 1; `None` for unlimited, which is counted all the same; `0` for nothing.
    - `window`: the name of a window, as `parse_window` takes it; `run` never ends. What follows a
      blank, such as a time zone, is for the ledger to read.
    """

    def __init__(self, axis: str, cap: "Any", window: str = "run") -> None:
        if axis == "usd":
            axis, cap = "nano_usd", None if cap is None else _in_nano("cap of usd", cap)
        self.axis = check_axis(axis)
        self.cap: int | None = None if cap is None else check_amount("cap of " + axis, cap)
        known = not isinstance(window, str) or window.startswith("rolling ")
        parse_window(window if known else window.partition(" ")[0])
        self.window = window

    def __repr__(self) -> str:
        return f"Limit({self.axis!r}, {self.cap!r}, {self.window!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Limit) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> "tuple[str, int | None, str]":
        return self.axis, self.cap, self.window


class LimitReader:
    """Reads limits for a ledger.

    `window` reads the names of windows, which begin with those that `Limit` knows. `axes` are the
    only ones that a limit or an amount may have; `None` allows any, but to a reservation only
    `AXES` and those that a limit on its path counts. `known` are those that are always allowed.
    """

    def __init__(self, window: "Callable[[Any], Window]", axes: "Sequence[str] | None") -> None:
        self.window = window
        if isinstance(axes, str):
            refuse("axes", "a list of axes", axes)
        self._any = axes is None
        self.known: Sequence[str] = AXES
        if axes is not None:
            self.known = ["nano_usd" if axis == "usd" else check_axis(axis) for axis in axes]

    def read(self, limits: "Any") -> "list[tuple[str, Window, int | None]]":
        """Return `(axis, window, cap)` of each limit, sorted.

        Raises `ValueError` for two limits on one axis and window, and for more than 16.
        """
        found: dict[tuple[str, str], tuple[str, Window, int | None]] = {}
        for limit in check_limits(limits):
            window = self.window(limit.window)
            self.check_axis(limit.axis)
            if (limit.axis, window.name) in found:
                raise ValueError(f"limits must differ: two are on {limit.axis} per {window.name}")
            found[limit.axis, window.name] = (limit.axis, window, limit.cap)
        if len(found) > MAX_LIMITS:
            raise ValueError(f"an account has at most {MAX_LIMITS} limits, not {len(found)}")
        return [found[key] for key in sorted(found)]

    def check_axis(self, axis: str, counted: bool = True) -> None:
        """Raise `ValueError` for an axis that may not be, or only if a limit has `counted` it."""
        check_axis(axis)
        if axis not in self.known and not (self._any and counted):
            more = ", or counted by a limit on the path, or named in axes" if self._any else ""
            refuse("axis", f"one of {', '.join(self.known)}{more}", axis)


def check_limits(limits: "Any") -> "Sequence[Limit]":
    """Accept a list of limits, or one alone."""
    found: Sequence[Limit] = limits if isinstance(limits, (list, tuple)) else (limits,)
    for limit in found:
        if not isinstance(limit, Limit):
            refuse("limits", "a list of Limits", limit)
    return found


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
                value = _in_nano("the amount of usd", value)
        elif axis.__class__ is not str:
            axis = check_axis(axis)
        if (value.__class__ is not int or not 0 <= value <= MOST) and not (
            unbounded and value is None
        ):
            value = check_amount("the amount of " + check_axis(axis), value)
        found[axis] = value
    return found


def _in_nano(name: str, usd: "Any") -> int:
    from budget_core.money import in_nano  # loaded for the first amount in dollars

    return in_nano(name, usd)


def _plain(text: str) -> str:
    """Return a plain string: members of an `Enum` print as something else."""
    return text if text.__class__ is str else "".join(text)

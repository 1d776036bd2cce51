"""Limits: what an account may use of an axis in a window."""

from budget_core.errors import refuse
from budget_core.ledger.checks import AXES, MAX_LIMITS, check_amount, check_axis, in_nano_usd
from budget_core.ledger.window import parse_window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.ledger.window import Window


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
            axis, cap = "nano_usd", None if cap is None else in_nano_usd("cap of usd", cap)
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

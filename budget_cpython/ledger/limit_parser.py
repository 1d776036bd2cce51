"""Read limits and times from a line of text, as in settings and commands."""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn, Self

from budget_core.ledger.checks import AXES, MAX_LIMITS
from budget_core.ledger.limit import Limit
from budget_core.ledger.window_words import per
from budget_core.money import in_nano
from budget_cpython.ledger.limit_words import (
    SECONDS,
    TOOL_CALLS,
    meant_axis,
    meant_limit,
    read_axis,
    window_of,
)

_NUMBER = r"[0-9]+(_[0-9]+)*(\.[0-9]+)?"
_MONEY = re.compile(rf"\$(?P<number>{_NUMBER})(?P<scale>[kKM])?")
_COUNT = re.compile(rf"(?P<number>{_NUMBER})(?P<scale>[kKM])?\s+(?P<axis>[A-Za-z][\w: -]*)", re.A)
_TIME = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<unit>[A-Za-z]+)")
_WINDOW = re.compile(r"/|\sper(?=\s|$)", re.I)
_SCALES = {None: 1, "k": 1_000, "K": 1_000, "M": 1_000_000}
_LONGEST = 1_000  # characters
_MOST_SECONDS = 36_500 * 86_400  # a century, which a float has to the millisecond


class ParsedBudget:
    """A budget as its `text` says it: its `limits`, in order, and the `seconds` of its time.

    Limits with a window, which a ledger keeps, are the `windowed` ones; the others are of a run.
    """

    def __init__(
        self, limits: Sequence[Limit], seconds: float | None = None, text: str = ""
    ) -> None:
        self.limits = list(limits)
        self.seconds = seconds
        self.text = text
        self.windowed: list[Limit] = []
        self.unwindowed: list[Limit] = []
        self.axes: list[str] = []
        for limit in limits:
            (self.unwindowed if limit.window == "run" else self.windowed).append(limit)
            if limit.axis not in self.axes:
                self.axes.append(limit.axis)

    @classmethod
    def read(cls, text: str, tools: bool = True) -> Self:
        """Return the budget of a text; raise `ValueError` as `parse_budget` does."""
        limits, times = [], []
        for part in _parts(text, "a budget must be such as '$5 + 30 min'"):
            seconds = _seconds(part)
            if seconds is None:
                limits.append(_limit(part, tools))
            else:
                times.append(seconds)
        if len(times) > 1:
            raise ValueError(f"a budget has at most one time, not {len(times)} as in {text!r}")
        return cls(_distinct(limits), times[0] if times else None, text)

    def check_counted(self, where: str, models: bool = True, tools: bool = True) -> None:
        """Raise `ValueError` for a limit that nothing counts, without calls of models, or tools."""
        for axis in self.axes:
            is_of_tools = axis not in AXES
            if is_of_tools and not tools:
                named = TOOL_CALLS if axis == TOOL_CALLS else f"tool:{axis}"
                raise ValueError(
                    f"{where} counts calls of models, tokens and dollars, but no calls of tools: "
                    f"{named!r} would limit nothing there. For tools that have an adapter, write "
                    "`with budget('20 tool_calls'):` in the program"
                )
            if not is_of_tools and not models and axis != "nano_usd":
                raise ValueError(
                    f"{where} counts calls of tools: {axis!r} would limit nothing there; did you "
                    "mean 'tool_calls'?"
                )


def parse_limits(text: str, tools: bool = True) -> list[Limit]:
    """Return the limits of a text such as `$5/day + 100 calls/hour`, in its order.

    Each is dollars (`$0.50`), or a whole number of `calls`, `tokens`, `tool_calls` or `tool:NAME`,
    the calls of one tool. `1_000_000`, `1000k` and `1M` are one number. After a `/`, or `per`,
    comes a window as `parse_window` takes it, or a time such as `min` or `5 h`, which is a rolling
    window; without one it is for a run. A `+` between blanks joins several.

    Raises `ValueError` for anything else, for money finer than a nano-dollar, and for two limits on
    one axis and window. Without `tools` its message suggests no limit of a tool's calls.
    """
    limits = []
    for part in _parts(text, "limits must be such as '$5/day + 100 calls/hour'"):
        if _seconds(part) is not None:
            raise ValueError(
                f"{part!r} is a time: a budget has one, as in with budget('5 calls + {part}'), but "
                f"limits have none; the window of a limit is such as '5 calls/{part}'"
            )
        limits.append(_limit(part, tools))
    return _distinct(limits)


def parse_budget(text: str, tools: bool = True) -> tuple[list[Limit], float | None]:
    """Return the limits and the seconds of a text such as `$5 + 200 calls/hour + 30 min`.

    Limits are those of `parse_limits`. At most one part is a time: a number and its unit, `ms`,
    `s`, `min`, `h` or `d` (also `m` and words, as in `2 hours`), with or without a blank between
    them. Without one the seconds are `None`; the text may be a time alone.

    Raises `ValueError` for anything else, for two times, and for a time with a window.
    """
    found = ParsedBudget.read(text, tools)
    return found.limits, found.seconds


def _parts(text: str, form: str) -> list[str]:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{form}, not {text!r}")
    if len(text) > _LONGEST:
        raise ValueError(f"{form}, of {_LONGEST} characters at most, not {len(text)}")
    parts = [part.strip() for part in re.split(r"\s\+(?=\s|$)|^\+(?=\s)", text)]
    if not all(parts):
        raise ValueError(f"{form}: a limit is missing beside a '+' in {text!r}")
    return parts


def _seconds(part: str) -> float | None:
    """Return the seconds of a time, `None` if it is none; refuse a time with a window."""
    said, window = _said(part)
    time = _TIME.fullmatch(said)
    unit = time and SECONDS.get(time["unit"].lower())
    if time is None or unit is None or time["unit"] == "M":
        return None
    if window is not None:
        raise ValueError(f"a time has no window: write {said!r}, not {part!r}")
    seconds = float(time["number"]) * unit
    if seconds > _MOST_SECONDS:
        raise ValueError(f"a time must be at most 36_500 d, not {part!r}")
    return seconds


def _said(part: str) -> tuple[str, str | None]:
    """Return what a part says before its window, and the window; `None` if it has none."""
    said, *window = _WINDOW.split(part, maxsplit=1)
    return said.strip(), window[0].strip() if window else None


def _limit(part: str, tools: bool) -> Limit:
    said, name = _said(part)
    window = "run" if name is None else window_of(name, part)
    money, count = _MONEY.fullmatch(said), _COUNT.fullmatch(said)
    if money is not None:
        nanos = in_nano("cap of usd", money["number"].replace("_", "")) * _SCALES[money["scale"]]
        return Limit("nano_usd", nanos, window)
    axis = count and read_axis(count["axis"])
    if count is None or (axis is None and meant_limit(part)):
        _refuse(part)
    if axis is None:
        raise ValueError(f"{part!r} limits nothing that is counted: {meant_axis(count, tools)}")
    number = Fraction(count["number"]) * _SCALES[count["scale"]]
    if number.denominator > 1:
        raise ValueError(f"a limit of {axis} must be a whole number, not {part!r}")
    return Limit(axis, int(number), window)


def _refuse(part: str) -> NoReturn:
    raise ValueError(
        f"a limit must be dollars, such as '$5/day', or a whole number of what it counts, such as "
        f"'100 calls/hour', not {part!r}{meant_limit(part)}"
    )


def _distinct(limits: list[Limit]) -> list[Limit]:
    """Return limits of which no two are on one axis and window; raise `ValueError` for others."""
    found = set()
    for limit in limits:
        if (limit.axis, limit.window) in found:
            axis = "dollars" if limit.axis == "nano_usd" else limit.axis
            raise ValueError(f"limits must differ: two are on {per(axis, limit.window)}")
        found.add((limit.axis, limit.window))
    if len(limits) > MAX_LIMITS:
        raise ValueError(f"an account has at most {MAX_LIMITS} limits, not {len(limits)}")
    return limits

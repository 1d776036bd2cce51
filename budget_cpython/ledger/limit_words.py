"""The words in a line of limits: axes, windows, and the nearest right spelling of others."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from budget_core.ledger.checks import AXES, MAX_LIMITS, MAX_SEGMENT, check_axis
from budget_core.ledger.limit import Limit
from budget_core.ledger.window import MOST_SECONDS
from budget_core.ledger.window_words import rolling, window_in_words
from budget_core.notices import show_on
from budget_cpython.ledger.windows import parse_window

TOOL_CALLS = "tool_calls"
COUNTED = (*AXES, TOOL_CALLS)  # where nothing limits them, too
SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_WEEK = dict.fromkeys(("w", "week", "weeks"), 604_800)
_AXES = {
    **dict.fromkeys(("call", "calls"), "calls"),
    **dict.fromkeys(("token", "tokens"), "tokens"),
    **dict.fromkeys(("tool_call", "tool_calls", "tool call", "tool calls"), TOOL_CALLS),
}
_OF_TOOL = "tool:"
_MEANT = {
    **dict.fromkeys(("request", "requests", "turn", "turns", "message", "messages"), "calls"),
    **dict.fromkeys(("tool", "tools", "toolcall", "toolcalls"), TOOL_CALLS),
}
_WINDOWS = ("hour", "day", "week", "month", "min")
_MEANT_WINDOWS = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "mo": "month",
    "m": "min",
}
_CALENDAR = {3600: "hour", 86_400: "day", 604_800: "week"}
_NUMBER = r"[0-9]{1,9}(_[0-9]{1,9}){0,3}(\.[0-9]{1,9})?"
_SPAN = re.compile(rf"(rolling\s+(?=[0-9]))?(?P<number>{_NUMBER})?\s*(?P<unit>[A-Za-z]+)")


def read_axis(words: str) -> str | None:
    """Return the axis that words name, `None` if they name none; upper and lower case are alike."""
    words = " ".join(words.split())
    if words[: len(_OF_TOOL)].lower() == _OF_TOOL:
        name = words[len(_OF_TOOL) :].strip()
        if name in COUNTED or name == "usd":
            raise ValueError(f"a tool named {name!r} has no limit of its own: limit tool_calls")
        return check_axis(name)
    return _AXES.get(words.lower())


def with_all_axes(limits: Sequence[Limit]) -> list[Limit]:
    """Return limits, and for each other axis of calls one without a cap, so that it is counted."""
    axes = [limit.axis for limit in limits]
    counted = [Limit(axis, None) for axis in COUNTED if axis not in axes]
    return [*limits, *counted][:MAX_LIMITS]


def limits_in_words(limits: Sequence[Limit]) -> str:
    """Return limits as a line that says the same, such as `$2.00 per 10 min + 5 calls per day`.

    Those that are only counted, which no line can say, are in it as `all calls per day`.
    """
    found = []
    for limit in limits:
        axis = limit.axis if limit.axis in COUNTED else _OF_TOOL + limit.axis
        show, unit = show_on(axis)
        unit = unit or ("" if limit.cap is not None else " dollars")
        cap = "all" if limit.cap is None else show(limit.cap)
        window = "" if limit.window == "run" else f" per {window_in_words(limit.window)}"
        found.append(f"{cap}{unit}{window}")
    return " + ".join(found)


def meant_axis(count: Any, tools: bool) -> str:
    """Return the right spelling of a limit that is not counted; of a tool only with `tools`."""
    number = count["number"] + (count["scale"] or "")
    last = count["axis"].lower().replace("-", "_").split()[-1]
    known = [name for name, axis in {**_AXES, **_MEANT}.items() if tools or axis != TOOL_CALLS]
    near = get_close_matches(last, known, 1, 0.7)
    units = get_close_matches(last, [unit for unit in SECONDS if len(unit) > 2], 1, 0.8)
    if near:
        meant = repr(f"{number} {_AXES.get(near[0]) or _MEANT[near[0]]}")
    elif units:
        meant = repr(f"{number} {units[0]}")
    else:
        meant = ""
    if not tools:
        return f"did you mean {meant}?" if meant else "write calls, tokens, or dollars such as '$5'"
    tool = re.sub(r"[^A-Za-z0-9_-]", "_", count["axis"].strip())[:MAX_SEGMENT]
    own = f"'{number} {_OF_TOOL}{tool}'"
    if meant:
        return f"did you mean {meant}? The calls of a tool of that name are {own}"
    return f"write calls, tokens or tool_calls, dollars such as '$5', or {own} for a tool's calls"


def meant_limit(part: str) -> str:
    """Return a hint for a part that has not the form of a limit."""
    if "," in part:
        if re.search(r"[0-9],[0-9]{3}", part):
            return ": a number has no commas, but may have '_' as in 1_000"
        return ": join limits with ' + ', as in '5 calls + 300 tokens'"
    if re.search(r"[+;&]|\band\b", part):
        return ": join limits with ' + ', with a blank on both sides"
    if re.search(r"\s(an?|in|every|each|within)\s|\b(hour|dai|week|month)ly$", part, re.I):
        return ": write '/' before the window, as in '5 calls/day'"
    if re.search(r"[A-Za-z]\s+[0-9]", part):
        return ": join limits with ' + '; a time is one number and unit, as in '90 min'"
    if re.search(r"[$€£]|\b(nano_usd|usd|dollars?|cents?|euros?|eur)\b", part, re.I):
        return ": money is in dollars, such as '$5' or '$0.50'"
    if re.fullmatch(r"un-?limited|none|no limits?|inf(inite)?( .*)?|infinity", part, re.I):
        return ": what is not limited is left out"
    if re.match(r"[0-9._]+\s*(m|million)\s", part):
        return ": a million is 'M', as in '1M tokens'"
    near = re.fullmatch(r"([0-9_]+)([A-Za-z][\w: -]*)(/.*)?", part)
    if near and read_axis(near[2]):
        return f": did you mean {f'{near[1]} {near[2]}{near[3] or str()}'!r}?"
    return ""


def window_of(name: str, part: str) -> str:
    """Return the name of the window that a limit says after its `/`.

    A number of hours and the like, and a minute, is a rolling window of that time.
    """
    span = _SPAN.fullmatch(name)
    unit = SECONDS.get(span["unit"].lower()) or _WEEK.get(span["unit"].lower()) if span else None
    if span and unit and span["unit"] != "M" and (span["unit"] != "m" or span["number"]):
        if span["number"] is None and unit >= 3600:
            return _CALENDAR[int(unit)]
        seconds = Fraction(span["number"] or 1) * Fraction(str(unit))
        if seconds.denominator > 1 or not 0 < seconds <= MOST_SECONDS:
            raise ValueError(
                f"the window of {part!r} must be a whole number of seconds, from 1 s to "
                f"{MOST_SECONDS // 86_400} d"
            )
        name = rolling(int(seconds))
    first, blank, rest = name.partition(" ")
    try:
        return parse_window(first.lower() + blank + rest).name
    except ValueError as error:
        raise ValueError(
            f"the window of {part!r} is not known: {_meant_window(name)}{error}; a time such as "
            "'10 min' is a rolling window"
        ) from None


def _meant_window(name: str) -> str:
    """Return a hint for a window that is not known."""
    time = re.fullmatch(r"([0-9._]*)\W*([A-Za-z]+)", name)
    if time is None:
        more = re.match(r"[0-9._]+\s*[A-Za-z]+\s*[0-9]", name)
        return "a time is one number and unit, as in '90 min'; " if more else ""
    number, word = time[1], time[2].lower()
    units = [*_WINDOWS, *_MEANT_WINDOWS, *(unit for unit in SECONDS if number and len(unit) > 2)]
    near = get_close_matches(word, units, 1, 0.6)
    if not near:
        return ""
    meant = _MEANT_WINDOWS.get(near[0], near[0])
    return f"did you mean '/{number + ' ' if number and meant in SECONDS else ''}{meant}'? "

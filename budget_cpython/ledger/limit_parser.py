"""Read limits and times from a line of text, as in settings and commands."""

import re

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.windows import parse_window

_AMOUNT = re.compile(
    r"\$(?P<money>[0-9]+(_[0-9]+)*(\.[0-9]+)?)|(?P<count>[0-9]+(_[0-9]+)*)\s+(?P<axis>[A-Za-z0-9_-]+)"
)
_TIME = re.compile(r"(?P<number>[0-9]+(_[0-9]+)*(\.[0-9]+)?)\s*(?P<unit>[A-Za-z]+)")
_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
_PLURALS = {"call": "calls", "token": "tokens"}


def parse_limits(text: str) -> list[Limit]:
    """Return the limits of a text such as `$5/day + 100 calls/hour`, in its order.

    Each is dollars (`$0.50`) or a whole number and an axis (`1_000_000 tokens`), then `/` and a
    window as `parse_window` takes it; without one it is for a run. A `+` between blanks joins
    several.

    Raises `ValueError` for anything else, for money finer than a nano-dollar, and for two limits on
    one axis and window.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"limits must be such as '$5/day + 100 calls/hour', not {text!r}")
    return _limits(_parts(text))


def parse_budget(text: str) -> tuple[list[Limit], float | None]:
    """Return the limits and the seconds of a text such as `$5 + 200 calls/hour + 30 min`.

    Limits are those of `parse_limits`. At most one part is a time: a number and its unit, `ms`,
    `s`, `min`, `h` or `d` (also `m` and words, as in `2 hours`), with or without a blank between
    them. Without one the seconds are `None`; the text may be a time alone.

    Raises `ValueError` for anything else, for two times, and for a time with a window.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"a budget must be such as '$5 + 30 min', not {text!r}")
    limits: list[str] = []
    times: list[float] = []
    for part in _parts(text):
        seconds = _seconds(part)
        if seconds is None:
            limits.append(part)
        else:
            times.append(seconds)
    if len(times) > 1:
        raise ValueError(f"a budget has at most one time, not {len(times)} as in {text!r}")
    return _limits(limits), times[0] if times else None


def _seconds(part: str) -> float | None:
    """Return the seconds of a time, `None` for a limit; raise `ValueError` for neither."""
    said, slash, _ = part.partition("/")
    time = _TIME.fullmatch(said.strip())
    if time is not None and time["unit"] in _SECONDS:
        if slash:
            raise ValueError(f"a time has no window: write {said.strip()!r}, not {part!r}")
        return float(time["number"]) * _SECONDS[time["unit"]]
    if _AMOUNT.fullmatch(said.strip()) is None:
        raise ValueError(
            f"a budget must be of dollars, such as '$5/day', amounts, such as '100 calls', and a "
            f"time, such as '30 min', not {part!r}"
        )
    return None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"\s\+\s", text)]


def _limits(parts: list[str]) -> list[Limit]:
    found: list[Limit] = []
    for part in parts:
        limit = _limit(part)
        if any((one.axis, one.window) == (limit.axis, limit.window) for one in found):
            raise ValueError(f"limits must differ: two are on {limit.axis} a {limit.window}")
        found.append(limit)
    return found


def _limit(part: str) -> Limit:
    said, slash, window = part.partition("/")
    parts = _AMOUNT.fullmatch(said.strip())
    if parts is None:
        raise ValueError(
            f"a limit must be an amount and an axis, such as '100 calls/hour', or dollars, such as "
            f"'$5/day', not {part!r}"
        )
    name = parse_window(window.strip()).name if slash else "run"
    if parts["axis"]:
        axis = _PLURALS.get(parts["axis"], parts["axis"])
        return Limit(axis, int(parts["count"]), name)
    return Limit("usd", parts["money"].replace("_", ""), name)

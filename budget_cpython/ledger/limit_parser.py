"""Read limits from a line of text, as in settings and commands."""

import re

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.windows import parse_window

_AMOUNT = re.compile(
    r"\$(?P<money>[0-9]+(_[0-9]+)*(\.[0-9]+)?)|(?P<count>[0-9]+(_[0-9]+)*)\s+(?P<axis>[A-Za-z0-9_-]+)"
)


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
    found: list[Limit] = []
    for part in re.split(r"\s\+\s", text):
        limit = _limit(part.strip())
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
        return Limit(parts["axis"], int(parts["count"]), name)
    return Limit("usd", parts["money"].replace("_", ""), name)

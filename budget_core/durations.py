"""Seconds at the public edge, whole milliseconds inside."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

inf = float("inf")


def in_ms(name: str, seconds: "Any", lower: float = 0) -> int | None:
    """Return a number of seconds to the nearest millisecond; `None` for infinity.

    Below zero is zero. Raises `ValueError` naming what is NaN, less than `lower`, or no number.
    """
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not seconds >= lower  # NaN is not
    ):
        from budget_core.errors import refuse

        rule = "a number of seconds" if lower < 0 else "a number of seconds >= 0"
        refuse(name, rule, seconds)
    if seconds == inf:
        return None
    return round(max(0, min(seconds, 10**12)) * 1000)  # a float times 1000 may be infinite

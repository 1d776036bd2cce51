"""The words for windows, as a line of limits has them and messages show them."""

from budget_core.ledger.checks import MOST_BUCKETS

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def per(axis: str, window: str) -> str:
    """Return an axis and its window in words, as in `tokens per 10 min`."""
    return f"{axis} per {window_in_words(window)}"


def window_in_words(window: str) -> str:
    """Return a window's name as it is shown: `rolling 600/60` is `10 min`, others stay.

    What it returns is read in a line of limits as that window. There are two of a unit at least: a
    rolling hour is `60 min`, as `hour` is the calendar's.
    """
    seconds = rolling_seconds(window)
    if not seconds or window != rolling(seconds):
        return window
    for size, unit in _UNITS:
        if seconds >= 2 * size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def rolling(seconds: int) -> str:
    """Return the name of the rolling window of a time, in as many buckets as it can have."""
    buckets = MOST_BUCKETS
    while seconds % buckets:
        buckets -= 1
    return f"rolling {seconds}/{buckets}"


def rolling_seconds(window: str) -> int:
    """Return the seconds of a rolling window, 0 of any other."""
    name, _, _ = window.partition("/")
    digits = name[8:]
    return int(digits) if name.startswith("rolling ") and digits.isdigit() else 0

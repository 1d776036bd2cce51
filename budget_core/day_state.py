"""What is stored of a day: whole numbers by name, few enough for a chip's slot.

A day is `(day, tokens, ahead, warned, told, corrupt, behind)`: its number from 1970, its tokens,
how far ahead of those they are stored, what the tracker has warned of and told, whether an earlier
state of it could not be trusted, and when a date before it was first believed, in Unix seconds
down to the hour, or 0.
"""

from budget_core.checks import check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = ("day", "tokens", "ahead", "warned", "told", "behind")
_DOUBT = 1 << 6  # above what may have been told
_HOUR = 3600


def encode(
    day: int, tokens: int, ahead: int, warned: int, told: int, corrupt: bool, behind: int
) -> "dict[str, Any]":
    """Return what a store is to keep of a day."""
    told += _DOUBT * corrupt
    return dict(zip(_NAMES, (day, tokens, ahead, warned, told, behind // _HOUR)))


def decode(state: "Any") -> "tuple[int, int, int, int, int, bool, int]":
    """Return the day that a store has kept; `ValueError` for anything but whole numbers."""
    try:
        values = [check_count(name, state[name]) for name in _NAMES]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the stored state is not a daily tracker's: {error!r}")
    day, tokens, ahead, warned, told, behind = values
    return day, tokens, ahead, warned, told % _DOUBT, told >= _DOUBT, behind * _HOUR

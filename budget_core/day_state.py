"""What is stored of a day: whole numbers by name, small enough for a chip's slot."""

from budget_core.limits import check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

_DOUBT = 1 << 6  # above what may have been told
_HOUR = 3600


class DayState:
    """A day's number from 1970, its tokens, and how far ahead of those they are stored.

    `warned` and `told` are the tracker's, `doubt` tells whether an earlier state of the day could
    not be trusted, and `behind` when a date before this day was first believed, in Unix seconds
    down to the hour, or 0.
    """

    def __init__(
        self,
        day: int,
        tokens: int,
        ahead: int = 0,
        warned: int = 0,
        told: int = 0,
        doubt: bool = False,
        behind: int = 0,
    ) -> None:
        self.day = day
        self.tokens = tokens
        self.ahead = ahead
        self.warned = warned
        self.told = told
        self.doubt = doubt
        self.behind = behind

    def stored(self) -> "dict[str, Any]":
        """Return what a store is to keep."""
        return {
            "day": self.day,
            "tokens": self.tokens,
            "ahead": self.ahead,
            "warned": self.warned,
            "told": self.told | (_DOUBT if self.doubt else 0),
            "behind": self.behind // _HOUR,
        }


def read_state(state: "Any") -> DayState:
    """Return what a store has kept; `ValueError` for anything but whole numbers by those names."""
    try:
        day, tokens, ahead, warned, told, behind = [
            check_count(name, state[name])
            for name in ("day", "tokens", "ahead", "warned", "told", "behind")
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the stored state is not a daily tracker's: {error!r}")
    return DayState(day, tokens, ahead, warned, told & ~_DOUBT, bool(told & _DOUBT), behind * _HOUR)

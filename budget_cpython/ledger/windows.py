"""Read the name of any window."""

from budget_core.ledger import window as core
from budget_core.ledger.window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Window", "parse_window"]


def parse_window(name: "Any") -> Window:
    """Return the window of that name.

    All that `budget_core` knows, in UTC; and `hour`, `day`, `week` and `month` in a named time
    zone, as in `day@5 Europe/Berlin`. A week may begin on any day: `week sunday`, `week@5 sunday
    America/New_York`.

    A window lies between two resets by the local clock: when that is changed, a day has 23 or 25
    hours. A reset that the clock skips happens when it jumps; one that comes twice, at the first.
    `UTC` and `monday` may be left out and are not part of the window's `name`.

    Raises `ValueError` for any other name, and for a zone that this machine does not know; if it
    has none at all, `pip install tzdata` helps.
    """
    try:
        return core.parse_window(name)
    except ValueError:
        from budget_cpython.ledger.zones import parse_zoned  # slow to import, and seldom needed

    return parse_zoned(name)

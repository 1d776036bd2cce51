"""Share between a board's programs the optional modules, the clock and the day's store."""

from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core.file_store import FileBudgetStore


def optional(name: str) -> "Any":
    """Return a module of the board's own, such as `secret`, or `None` if it is missing."""
    try:
        return __import__(name)
    except ImportError:
        return None


def prepare_clock(needs_sync: bool = False) -> None:
    """Believe no date before the deployed build's.

    With `needs_sync`, as on every chip, no date is believed before a time server has set it.
    """
    WALL.needs_sync = needs_sync
    WALL.built = max(WALL.built, getattr(optional("deployed"), "BUILT", 0))


rejoin: "Callable[[], object] | None" = None
"""Does the work of `refresh_network`, on a board with a network; `wifi.start` sets it."""


def refresh_network() -> None:
    """Join the Wi-Fi again if it was lost, and ask a time server if the clock is stale.

    It takes up to two attempts to join, and raises nothing. The chat calls it before each turn.
    """
    if rejoin is not None:
        rejoin()


def open_store(settings: "Any") -> "FileBudgetStore":
    """Return the store in the folder `settings.STATE`; on a deployed board its slots must exist.

    The programs of a board and `status` open the same one.
    """
    from budget_core.file_store import FileBudgetStore

    provisioned = getattr(optional("deployed"), "PROVISIONED", False)
    return FileBudgetStore(settings.STATE, provisioned, settings.ALLOWANCE)

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


ask_time: "Callable[[], object] | None" = None
"""Asks a time server again, on a board with a network; `wifi.start` sets it."""


def refresh_clock() -> None:
    """Ask a time server again if the date is not believed, or was set a day ago or more."""
    if ask_time is not None and WALL.stale:
        ask_time()


def open_store(settings: "Any") -> "FileBudgetStore":
    """Return the store in the folder `settings.STATE`; on a deployed board its slots must exist.

    The programs of a board and `status` open the same one.
    """
    from budget_core.file_store import FileBudgetStore

    provisioned = getattr(optional("deployed"), "PROVISIONED", False)
    return FileBudgetStore(settings.STATE, provisioned, settings.ALLOWANCE)

"""The core's ledger for any number of threads, with windows of any time zone."""

from threading import Lock

from budget_core import ledger
from budget_cpython.clock import WALL
from budget_cpython.ledger.windows import parse_window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.ledger_window import Window


class Ledger(ledger.Ledger):
    """Budgets by path in this process's memory, counted right by any number of threads.

    The default clock is `budget_cpython.WALL`. Everything else is the core's.
    """

    def __init__(
        self,
        clock: "Callable[[], float]" = WALL,
        *,
        windows: "Callable[[Any], Window]" = parse_window,
        axes: "Sequence[str] | None" = None,
        max_accounts: int = 1_000_000,
        max_holds: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        super().__init__(
            clock,
            Lock(),
            windows=windows,
            axes=axes,
            max_accounts=max_accounts,
            max_holds=max_holds,
            keep=keep,
        )

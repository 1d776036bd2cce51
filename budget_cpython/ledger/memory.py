"""The core's ledger for any number of threads, with windows of any time zone."""

import os
from functools import lru_cache
from threading import Lock

from budget_core.ledger import memory
from budget_cpython.ledger.windows import parse_window
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.ledger.window import Window


class Ledger(memory.Ledger):
    """Budgets by path in this process's memory, counted right by any number of threads.

    `set_limits` gives an account limits; `reserve` holds what a call may use on it and on all above
    it, or raises `BudgetExceededError`; `commit` records what was used in the place of the hold,
    and `release` gives it back. The default clock is `budget_cpython.WALL`. `made_in` is the id of
    the process: a forked one has a copy, which counts for itself.
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
            windows=lru_cache(64)(windows),  # limits share windows
            axes=axes,
            max_accounts=max_accounts,
            max_holds=max_holds,
            keep=keep,
        )
        self.made_in = os.getpid()

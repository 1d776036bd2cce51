"""The core's daily allowance under a lock, for any number of threads."""

from threading import Lock

from budget_core import daily_allowance
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budget_core._types import BudgetStateStore


class DailyAllowance(daily_allowance.DailyAllowance):
    """The daily limits of tools and the like, claimed right by any number of threads.

    The default clock is `budget_cpython.WALL`. The store is called under the lock.
    """

    def __init__(
        self,
        name: str,
        caps: "Mapping[str, int | None]",
        store: "BudgetStateStore | None" = None,
        reset_hour_utc: int = 0,
        clock: "Callable[[], float] | None" = None,
    ) -> None:
        clock = WALL if clock is None else clock
        super().__init__(name, caps, store, reset_hour_utc, clock, Lock())

"""The core's trackers and daily allowance under a lock, for any number of threads."""

from threading import Lock

from budget_core import daily_allowance, daily_tracker, tracker
from budget_cpython.config import DailyBudgetConfig, TurnBudgetConfig
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budget_core import config as core
    from budget_core._types import BudgetStateStore
    from budget_core.ledger._types import LedgerProtocol


class TurnBudgetTracker(tracker.TurnBudgetTracker):
    """The usage of one turn, counted right by any number of threads.

    Takes either package's `TurnBudgetConfig`.
    """

    def __init__(
        self,
        config: "core.TurnBudgetConfig | None" = None,
        *,
        ledger: "LedgerProtocol | None" = None,
        account: str | None = None,
    ) -> None:
        config = TurnBudgetConfig() if config is None else config
        super().__init__(config, Lock(), ledger=ledger, account=account)


class DailyBudgetTracker(daily_tracker.DailyBudgetTracker):
    """The usage of today, counted and stored right by any number of threads.

    Takes either package's `DailyBudgetConfig`. The default clock is `budget_cpython.WALL`. The
    store is called under the tracker's lock, so threads wait for a slow one.
    """

    def __init__(
        self,
        config: "core.DailyBudgetConfig | None" = None,
        clock: "Callable[[], float] | None" = None,
        store: "BudgetStateStore | None" = None,
        write_ahead: int = 0,
        *,
        ledger: "LedgerProtocol | None" = None,
        account: str | None = None,
    ) -> None:
        config = DailyBudgetConfig() if config is None else config
        clock = WALL if clock is None else clock
        super().__init__(config, clock, store, Lock(), write_ahead, ledger=ledger, account=account)


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

"""Count one day's tokens, and remember them after a restart."""

from budget_core.checks import check_count, check_kind
from budget_core.config import NEVER, WHOLE, DailyBudgetConfig
from budget_core.day_window import OVER, STAYS, DayWindow
from budget_core.tracker import BudgetTracker
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Axis, BudgetStateStore, Lock
    from budget_core.ledger._types import LedgerProtocol


class DailyBudgetTracker(BudgetTracker):
    """What today (UTC, from the configured hour) has used of its tokens.

    `clock` returns Unix seconds; the default is `WALL`, the port's clock as far as it can be
    believed. `DayWindow` says what ends a day.

    `store` is read once, and given every change before the call returns; without one the count ends
    with the process. With `write_ahead` tokens it gets a count that is so much higher, and no
    further record until that is passed; before a call, half of it is made sure of. A restart
    continues from the stored count: up to `write_ahead` too much, never too little.

    A store that fails denies: the tracker is at its limit, `store_error` says why, and the store
    is tried again by each record and each `maybe_auto_reset`, which a wrapper calls before a call.
    A stored state that is damaged counts as a day spent, but for the store's `allowance`;
    `state_error` says why until the next day.

    In the place of a store, a `ledger` that blocks and the path of an `account` in it make the day
    one of all processes that count there; the clock is the ledger's, and one that fails denies.
    """

    SCOPE = "daily"
    config: DailyBudgetConfig
    _stored: "Any" = None

    def __init__(
        self,
        config: DailyBudgetConfig | None = None,
        clock: "Callable[[], float] | None" = None,
        store: "BudgetStateStore | None" = None,
        lock: "Lock | None" = None,
        write_ahead: int = 0,
        *,
        ledger: "LedgerProtocol | None" = None,
        account: str | None = None,
    ) -> None:
        config = DailyBudgetConfig() if config is None else config
        check_kind("config", config, DailyBudgetConfig)
        for name, value, wanted, right in (
            ("clock", clock, "a function that returns Unix seconds", callable(clock)),
            ("store", store, "a store, such as FileBudgetStore(path)", hasattr(store, "save")),
        ):
            if value is not None and not right:
                from budget_core.errors import refuse

                refuse(name, wanted, value)
        self._window = DayWindow(clock or WALL, config.reset_hour_utc)
        check_count("write_ahead", write_ahead)
        super().__init__(config, None, config.daily_budget, bool(config.primary_models), lock)
        self.covered = NEVER  # up to how many tokens a call needs nothing stored before it
        if ledger is not None or account is not None:
            from budget_core.ledger.for_tracker import LedgerDay  # loaded for the first ledger

            self.covered = -1
            self.ledger_account = LedgerDay(self, ledger, account, store)
            self.ledger_account.begin()
        elif store is not None:
            from budget_core.day_state import StoredDay  # loaded for the first store

            self._stored = StoredDay(self, store, self._window, write_ahead)
            self._stored.read()
            self._arm()

    def _weight(self, model: object) -> int | None:
        return (
            WHOLE if model in self.config.primary_models and model != self.fallback_model else None
        )

    @property
    def resets_at(self) -> int:
        """The Unix time at which the day that is counted ends."""
        return self._window.end

    def axes(self) -> "list[Axis]":
        """Return `(scope, unit, used, cap, kept)` of a day's one axis, its tokens."""
        return super().axes()[1:]

    def maybe_auto_reset(self) -> None:
        """Begin a new day when the old one is over; try a store that failed again."""
        window = self._window
        if self.total_tokens <= self.covered and window.start <= window.clock() < window.end:
            return
        if self.ledger_account is not None:
            super().maybe_auto_reset()
            return
        with self.lock:
            moved = window.follow(window.clock())
            if moved == OVER:
                self._forget()
                self.state_error = None
            elif moved == STAYS and self.total_tokens <= self.covered:
                return
            if self._stored is not None:
                self._stored.read()
            self.changed()

    def flush(self) -> bool:
        """Store the exact count, before a sleep or a restart that is meant; tell whether it is."""
        with self.lock:
            return self._stored is not None and self._stored.flush()

    def _save(self) -> None:
        if self._stored is None:
            super()._save()
        else:
            self._stored.save()

"""Count one day's tokens, and remember them after a restart."""

from budget_core.checks import check_count
from budget_core.config import DailyBudgetConfig
from budget_core.day_state import decode, encode
from budget_core.day_window import OVER, STAYS, DayWindow
from budget_core.tracker import NEVER, OUTAGE, BudgetTracker, Count
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import BudgetStateStore, Lock
    from budget_core.ledger._types import LedgerProtocol


class DailyBudgetTracker(BudgetTracker):
    """What today (UTC, from the configured hour) has used of its tokens.

    `clock` returns Unix seconds; the default is `WALL`, the port's clock as far as it can be
    believed. `DayWindow` says what ends a day.

    `store` is asked once, and told of every change before the call returns; without one the count
    ends with the process. With `write_ahead` tokens it is told of a count that is so much higher,
    and of no further record until that is passed; before a call, half of it is made sure of. A
    restart goes on from the stored count: up to `write_ahead` too much, never too little. `flush`
    stores the exact count.

    A store that fails denies: the tracker is at its limit, `store_error` says why, and the store
    is tried again before each call. A stored state that cannot be trusted counts as a day spent,
    but for the store's `allowance`; `state_error` says why until the next day.

    In the place of a store, a `ledger` that blocks and the path of an `account` in it make the day
    one of all processes that count there; the clock is the ledger's, and one that fails denies.
    Source: seed 001.
    """

    SCOPE = "daily"
    config: DailyBudgetConfig

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
        config = config or DailyBudgetConfig()
        self._clock = clock or WALL
        self._ticks = getattr(self._clock, "ticks", self._clock)
        self._window = DayWindow(self._clock, config.reset_hour_utc)
        self._note_window()
        self._ahead = check_count("write_ahead", write_ahead)
        self._covered = NEVER  # up to how many tokens a call needs nothing stored before it
        self._exact = -1  # how many tokens are stored, if just so many are
        self.store_error: Exception | None = None
        self.state_error: Exception | None = None
        super().__init__(config, Count(None, config.daily_budget, lock))
        self.count.by_model = bool(config.primary_models)
        self._store: Any = store
        if ledger is not None or account is not None:
            from budget_core.ledger.for_tracker import LedgerDay  # loaded for the first ledger

            self.ledger_account = LedgerDay(self, ledger, account, store)
            self.ledger_account.begin()
        elif store is not None:
            self._restore()

    def _weight(self, model: object) -> float | None:
        return 1 if model in self.config.primary_models and model != self.fallback_model else None

    @property
    def resets_at(self) -> int:
        """The Unix time at which the day that is counted ends."""
        return self._window.end

    def dominant_axis(self) -> "tuple[int, int | None, str]":
        """Return `(used, cap, unit)`: a day has no other axis than tokens."""
        return self.count.tokens, self.count.token_cap, "tokens"

    def maybe_auto_reset(self) -> None:
        """Begin a new day when the old one is over; try a store that failed again."""
        if self.ledger_account is not None:
            super().maybe_auto_reset()
            return
        if self.count.tokens <= self._covered and self._since <= self._ticks() < self._until:
            return
        with self.count.lock:
            moved = self._window.follow(self._clock())
            if moved == OVER:
                self._forget()
                self.state_error = None
            elif moved == STAYS and self.count.tokens <= self._covered:
                return
            self._note_window()
            if self._store is not None and self.count.saves_from == NEVER:
                self._restore()
            self._changed()

    def _note_window(self) -> None:
        """Note in the clock's own units from when until when there is nothing to look at."""
        second = getattr(self._clock, "second", 1)
        self._since = self._window.start * second
        self._until = self._window.end * second

    def flush(self) -> bool:
        """Store the exact count, before a sleep or a restart that is meant; tell whether it is."""
        with self.count.lock:
            if self.count.saves_from == NEVER:
                return False
            if self._exact != self.count.tokens:  # nothing is written for nothing
                self._save(0)
            return self.store_error is None

    def _restore(self) -> None:
        state = failure = None
        try:
            state = self._store.load()
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the budget holds
            failure = error
        corrupt = getattr(failure, "corrupt", False)
        self.store_error = None if corrupt else failure
        self.count.saves_from = 0 if self.store_error is None else NEVER
        if failure is not None and corrupt:
            self._distrust(failure)
        elif state is not None:
            self._adopt(state)
        self._covered = -1  # no call before the store has shown that it takes a count
        self._arm()

    def _adopt(self, state: "Any") -> None:
        try:
            day, tokens, ahead, warned, told, corrupt, behind = decode(state)
        except ValueError as error:
            self._distrust(error)
            return
        if self._window.adopt(day, behind):
            self._note_window()
            self.count.tokens += tokens + ahead
            self._warned_ppm = warned
            self._told = told
            if corrupt:
                self.state_error = ValueError("an earlier state of this day was not to be trusted")

    def _distrust(self, error: Exception) -> None:
        self.state_error = error
        cap = self.count.token_cap or 0
        self.count.tokens += max(0, cap - getattr(self._store, "allowance", 0))
        self._save(0)

    def _save(self, ahead: int | None = None) -> None:
        if self.ledger_account is not None:
            super()._save()
            return
        told = self._told & (1 << OUTAGE) - 1
        tokens, window = self.count.tokens, self._window
        ahead = self._ahead if ahead is None else ahead
        corrupt = self.state_error is not None
        try:
            self._store.save(
                encode(window.day, tokens, ahead, self._warned_ppm, told, corrupt, window.behind)
            )
            if self.store_error is not None:
                self.store_error = None
                self._told = told
            self._covered = NEVER
            self._exact = -1 if ahead else tokens
            if self._ahead:
                self.count.saves_from = tokens + ahead + 1
                self._covered = tokens + ahead - self._ahead // 2
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the record stands
            self.store_error = error
            self.count.saves_from = 0
            self._covered = self._exact = -1
            self.count.alert = True

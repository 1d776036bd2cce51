"""Count one day's tokens, and remember them after a restart."""

from budget_core.checks import check_count, check_kind
from budget_core.config import NEVER, OUTAGE, WHOLE, DailyBudgetConfig
from budget_core.day import NAMES, OVER, STAYS, DayWindow, spent_at_worst
from budget_core.tracker import BudgetTracker
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from budget_core._types import BudgetStateStore, Lock
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
    covered = NEVER  # up to how many tokens a call needs nothing stored before it
    config: DailyBudgetConfig
    _exact = -1  # how many tokens are stored, if just so many are

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
        if store is not None and not hasattr(store, "save"):
            from budget_core.errors import refuse

            refuse("store", "a store, such as FileBudgetStore(path)", store)
        self._window = DayWindow(WALL if clock is None else clock, config.reset_hour_utc)
        self._store = store
        self._write_ahead = check_count("write_ahead", write_ahead)
        by_model, cap = bool(config.primary_models), config.daily_budget
        super().__init__(config, None, cap, by_model, lock, ledger, account)
        if store is not None:
            self._read(store)
            self._arm()

    def _weight(self, model: object) -> int | None:
        return (
            WHOLE if model in self.config.primary_models and model != self.fallback_model else None
        )

    @property
    def resets_at(self) -> int:
        """The Unix time at which the day that is counted ends."""
        return self._window.end

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
            if self._store is not None and self.saves_from == NEVER:
                self._read(self._store)
            self.changed()

    def flush(self) -> bool:
        """Store the exact count, before a sleep or a restart that is meant; tell whether it is."""
        with self.lock:
            is_read = self._store is not None and self.saves_from < NEVER
            if is_read and self._exact != self.total_tokens:
                self._save(0)
            return is_read and self.store_error is None

    def _read(self, store: "BudgetStateStore") -> None:
        """Continue from what is stored; once that was read, it is not read again."""
        state, error, failure = self._window.load(store, NAMES, len(NAMES))
        self.note_outage(failure)
        if failure is None:
            self.saves_from = 0  # which also says that it was read
            self.state_error = error
            if state is not None:
                self.total_tokens += state["tokens"] + state["ahead"]
                self.warned_ppm = state["warned"]
                self.announced = state["announced"]
            elif error is not None:
                from budget_core.log import log  # that day's alone

                log("error", f"the daily budget counts as spent: {error}")
                self.total_tokens += spent_at_worst(store, self.token_cap)
                self.warned_ppm = WHOLE + 1  # no threshold is crossed by damage
                self._save(0)
        self.covered = -1  # no call before the store has shown that it takes a count

    def _save(self, ahead: int | None = None) -> None:
        """Store the count, so far ahead; as far as configured unless given."""
        if self._store is None:
            super()._save()
            return
        tokens = self.total_tokens
        ahead = self._write_ahead if ahead is None else ahead
        announced = self.announced % OUTAGE
        used = dict(zip(NAMES, (tokens, ahead, self.warned_ppm, announced)))
        try:
            self._window.save(self._store, used, self.state_error)
            if self.store_error is not None:
                self.note_outage(None)
                self.announced = announced
            self.covered = NEVER
            self._exact = -1 if ahead else tokens
            if self._write_ahead:
                self.saves_from = tokens + ahead + 1
                self.covered = tokens + ahead - self._write_ahead // 2
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the record stands
            self.note_outage(error)
            self.saves_from = 0
            self.covered = self._exact = -1
            self.alert = True

"""Count one day's tokens, and remember them after a restart."""

from budget_core.clock import DAY, day_key, unix_time
from budget_core.config import DailyBudgetConfig
from budget_core.limits import check_count
from budget_core.tracker import OUTAGE, BudgetTracker, Count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

_FIELDS = ("day_key", "total_tokens", "warned_ppm", "told", "distrusted")


class DailyBudgetTracker(BudgetTracker):
    """What today (UTC, from the configured hour) has used of its tokens.

    `clock` returns Unix seconds; the default reads the port's clock whatever its epoch. The day
    never moves back. `store` is asked once, and told of every change before the call returns;
    without one the count ends with the process.

    A store that fails denies: the tracker is at its limit, `store_error` says why, and the store
    is tried again before each call. A stored state that cannot be trusted counts as a day fully
    spent, unless the store's `on_corrupt` is `"fresh"`; `state_error` says why until the next day.
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
    ) -> None:
        config = config or DailyBudgetConfig()
        self._clock = clock or unix_time
        self.store_error: Exception | None = None
        super().__init__(config, Count(None, config.daily_budget, lock))
        self.count.by_model = bool(config.primary_models)
        self._store: Any = store
        self._begin(self._clock())
        if store is not None:
            self._restore()

    def _weight(self, model: object) -> float | None:
        return 1 if model in self.config.primary_models and model != self.fallback_model else None

    def dominant_axis(self) -> "tuple[int, int | None, str]":
        """Return `(used, cap, unit)`: a day has no other axis than tokens."""
        return self.count.tokens, self.count.token_cap, "tokens"

    def is_at_limit(self) -> bool:
        """Tell whether the day is spent, or its store failing; an unlimited day never is."""
        return super().is_at_limit() or self._fails()

    def _fails(self) -> bool:
        return self.store_error is not None and self.count.token_cap is not None

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return what to say at the limit, or that the budget's state is out of reach."""
        if self._fails():
            from budget_core.template import UNAVAILABLE  # loaded for the first notice

            return UNAVAILABLE
        return super().at_limit_message(enforcement)

    def maybe_auto_reset(self) -> None:
        """Begin a new day when the old one is over; try a store that failed again."""
        now = self._clock()
        if now < self._day_end and self.store_error is None:
            return
        with self.count.lock:
            if now >= self._day_end:
                self._forget()
                self._begin(now)
            if self._store is not None and not self.count.saves:
                self._restore()
            self._changed()

    def _begin(self, now: float) -> None:
        reset_hour = self.config.reset_hour_utc
        self._day = day_key(now, reset_hour)
        self._day_end = (self._day + 1) * DAY + reset_hour * 3600
        self.state_error: Exception | None = None

    def _restore(self) -> None:
        state = failure = None
        try:
            state = self._store.load()
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the budget holds
            failure = error
        corrupt = getattr(failure, "corrupt", False)
        self.store_error = None if corrupt else failure
        self.count.saves = self.store_error is None
        if failure is not None and corrupt:
            self._distrust(failure)
        elif state is not None:
            self._adopt(state)
        self._arm()

    def _adopt(self, state: "Any") -> None:
        try:
            day, tokens, warned, told, distrusted = [
                check_count(name, state[name]) for name in _FIELDS
            ]
        except (KeyError, TypeError, ValueError) as error:
            self._distrust(ValueError(f"the stored state is not a daily tracker's: {error!r}"))
            return
        if day >= self._day:
            self._day_end += (day - self._day) * DAY
            self._day = day
            self.count.tokens += tokens
            self._warned_ppm = warned
            self._told = told
            if distrusted:
                self.state_error = ValueError("an earlier state of this day was not to be trusted")

    def _distrust(self, error: Exception) -> None:
        if getattr(self._store, "on_corrupt", "deny") != "fresh":
            self.state_error = error
            self.count.tokens += self.count.token_cap or 0
            self._save()

    def _save(self) -> None:
        told = self._told & (1 << OUTAGE) - 1
        distrusted = int(self.state_error is not None)
        values = (self._day, self.count.tokens, self._warned_ppm, told, distrusted)
        try:
            self._store.save(dict(zip(_FIELDS, values)))
            if self.store_error is not None:
                self.store_error = None
                self._told = told
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the record stands
            self.store_error = error
            self.count.alert = True

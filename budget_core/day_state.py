"""Keep a day's count in a store, and continue from it after a restart."""

from budget_core.checks import check_count
from budget_core.config import NEVER, OUTAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import BudgetStateStore, StoredTracker
    from budget_core.day_window import DayWindow

_NAMES = ("day", "tokens", "ahead", "warned", "announced", "behind")
_DOUBT = 1 << 6  # above what may be announced
_HOUR = 3600


class DayState:
    """What a store holds of the day that a window is in; reading it moves the window to that day.

    - `tokens`, `ahead`: what the day has used, and how far ahead of that it is stored.
    - `warned`, `announced`: what its tracker has said of it.
    - `state_error`: why a state cannot be trusted, this one or an earlier one of the day. This one
      counts as a day spent, but for the store's `allowance`.
    - `store_error`: why the store could not be read; the day then counts as spent, too.
    - `is_known`: whether the store holds this day.
    """

    tokens = ahead = warned = announced = 0
    state_error: "Exception | None" = None
    store_error: "Exception | None" = None
    is_known = False

    def __init__(self, store: "BudgetStateStore", window: "DayWindow", cap: int | None) -> None:
        try:
            state = store.load()
            if state is not None:
                self._take(state, window)
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the budget holds
            if getattr(error, "corrupt", False):
                self.state_error = error
            else:
                self.store_error = error
            self.tokens = max(0, (cap or 0) - getattr(store, "allowance", 0))

    def _take(self, state: "Any", window: "DayWindow") -> None:
        try:
            values = [check_count(name, state[name]) for name in _NAMES]
        except (KeyError, TypeError, ValueError) as error:
            from budget_core.errors import StateCorruptError

            raise StateCorruptError(f"the stored state is not a daily tracker's: {error!r}", error)
        day, tokens, ahead, warned, announced, behind = values
        if window.adopt(day, behind * _HOUR):
            self.is_known = True
            self.tokens, self.ahead, self.warned = tokens, ahead, warned
            self.announced = announced % _DOUBT
            if announced >= _DOUBT:
                self.state_error = ValueError("an earlier state of this day was damaged")


class StoredDay:
    """Keeps a daily tracker's count in its store; the tracker holds its lock meanwhile.

    What the store raises becomes the tracker's `store_error`. With `write_ahead` tokens the store
    gets a count that is so much higher, and no further record until that is passed; before a call,
    half of it is made sure of.
    """

    def __init__(
        self,
        tracker: "StoredTracker",
        store: "BudgetStateStore",
        window: "DayWindow",
        write_ahead: int,
    ) -> None:
        self._tracker = tracker
        self.store = store
        self._window = window
        self.write_ahead = write_ahead
        self._exact = -1  # how many tokens are stored, if just so many are
        self._is_read = False

    def read(self) -> None:
        """Continue from what is stored, once."""
        if self._is_read:
            return
        tracker = self._tracker
        state = DayState(self.store, self._window, tracker.token_cap)
        tracker.note_outage(state.store_error)
        if state.store_error is None:
            self._is_read = True
            tracker.saves_from = 0
            tracker.total_tokens += state.tokens + state.ahead
            tracker.state_error = state.state_error
            if state.is_known:
                tracker.warned_ppm = state.warned
                tracker.announced = state.announced
            elif state.state_error is not None:
                from budget_core.log import log  # that day's alone

                log("error", f"the daily budget counts as spent: {state.state_error}")
                tracker.warned_ppm = 1_000_001  # no threshold is crossed by damage
                self.save(0)
        tracker.covered = -1  # no call before the store has shown that it takes a count

    def save(self, ahead: int | None = None) -> None:
        """Store the count, so far ahead; as far as configured unless given."""
        tracker, window = self._tracker, self._window
        tokens = tracker.total_tokens
        ahead = self.write_ahead if ahead is None else ahead
        announced = tracker.announced % OUTAGE
        doubt = _DOUBT if tracker.state_error is not None else 0
        values = (window.day, tokens, ahead, tracker.warned_ppm, announced + doubt)
        try:
            self.store.save(dict(zip(_NAMES, values + (window.behind // _HOUR,))))
            if tracker.store_error is not None:
                tracker.note_outage(None)
                tracker.announced = announced
            tracker.covered = NEVER
            self._exact = -1 if ahead else tokens
            if self.write_ahead:
                tracker.saves_from = tokens + ahead + 1
                tracker.covered = tokens + ahead - self.write_ahead // 2
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the record stands
            tracker.note_outage(error)
            tracker.saves_from = 0
            tracker.covered = self._exact = -1
            tracker.alert = True

    def flush(self) -> bool:
        """Store the exact count; tell whether it is stored."""
        if not self._is_read:
            return False
        if self._exact != self._tracker.total_tokens:
            self.save(0)
        return self._tracker.store_error is None

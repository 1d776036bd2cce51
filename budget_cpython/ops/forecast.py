"""How near a limit is to its end, and when it will be empty at the rate of its window."""

from typing import NamedTuple

from budget_core.ledger.hold import Balance
from budget_core.ledger.window_words import rolling_seconds
from budget_cpython.ledger.journal import HOUR_S

FINE, NEAR, OVER = "fine", "near", "over"
NEAR_PERCENT = 80
LEAST_S = 300  # of a window, before its rate means anything
LEAST_PERCENT = 10  # of a limit
_RANKS = {FINE: 0, NEAR: 1, OVER: 3}  # limits that end early are 2


class LimitStatus(NamedTuple):
    """One limit, and what its rate leads to.

    - `balance`: the limit, and what is spent and held of it.
    - `percent`: the whole percent of it that is spent, 100 or more if it is over; `None` if it is
      unlimited.
    - `state`: `fine`; `near`, from 80 percent; or `over`, when all of it is spent.
    - `rate`: what an hour spends, rounded down; `None` if that is not known.
    - `empty_at`: the Unix second by which all of it is spent at that rate; `None` if it is over,
      unlimited, or the rate is too small or not known.
    """

    balance: Balance
    percent: int | None
    state: str
    rate: int | None
    empty_at: int | None

    @property
    def ends_early(self) -> bool:
        """Whether it is not over yet, and will be before its window ends."""
        resets_at = self.balance.resets_at
        return self.empty_at is not None and (resets_at is None or self.empty_at < resets_at)

    @property
    def urgency(self) -> tuple[int, float]:
        """The key that sorts limits; the one nearest its end has the greatest.

        Limits that are over come before those that will be, then those that are near, and within
        these the larger share goes first, with what is held.
        """
        limit = self.balance.limit
        rank = 2 if self.ends_early else _RANKS[self.state]
        return rank, (self.balance.spent + self.balance.held) / limit if limit else 0.0


def limit_status(balance: Balance, now: int, rate: int | None = None) -> LimitStatus:
    """Return the status of a limit at `now`, in Unix seconds.

    The rate is what its window has spent by now, divided by the time since it began. It makes no
    forecast in the first 5 minutes of a window, nor before a tenth of the limit is spent, when few
    calls decide it. A window that never ends has no rate, and what a rolling one spends leaves it
    again: for these give the `rate`, by the hour, as seen between two balances.
    """
    limit, spent = balance.limit, balance.spent
    empty_at = None
    state = _state(spent, limit)
    if rate is None:
        rate, amount, elapsed = _rate(balance, now)
    else:
        amount, elapsed = rate, HOUR_S
    if limit is not None and state != OVER and amount > 0 and 100 * spent >= LEAST_PERCENT * limit:
        empty_at = now - (spent - limit) * elapsed // amount  # rounded up
    percent = None if limit is None else 100 * spent // limit if limit else 100 * bool(spent)
    return LimitStatus(balance, percent, state, rate, empty_at)


def _state(spent: int, limit: int | None) -> str:
    """Return the state; a limit of nothing is over once something is spent."""
    if limit is None:
        return FINE
    if spent >= max(limit, 1):
        return OVER
    return NEAR if limit and 100 * spent >= NEAR_PERCENT * limit else FINE


def _rate(balance: Balance, now: int) -> tuple[int | None, int, int]:
    """Return the rate an hour, and the amount and the seconds for a forecast, 0 without one."""
    if span := rolling_seconds(balance.window):
        return balance.spent * HOUR_S // span, 0, 0
    elapsed = now - balance.begins_at
    if balance.resets_at is None or elapsed < LEAST_S:
        return None, 0, 0
    return balance.spent * HOUR_S // elapsed, balance.spent, elapsed

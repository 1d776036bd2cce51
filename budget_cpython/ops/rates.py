"""What limits spend by the hour just now, from balances some seconds apart."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import HOUR_S
from budget_cpython.ops.account_tree import Place

_SPAN_S = 300  # a rate is that of the last minutes
_LEAST_S = 10
_MOST = 64  # samples of a limit

Sample = tuple[int, int]  # when, in Unix seconds, and how much was spent


class RecentRates:
    """The last balances of each limit, and the rates between them.

    Balances of up to 5 minutes count. A window that began since then begins anew.
    """

    def __init__(self) -> None:
        self._samples: dict[Place, deque[Sample]] = {}

    def add(self, balances: Iterable[Balance], now: int) -> None:
        """Add balances of `now`, in Unix seconds; limits that are missing are forgotten."""
        before, self._samples = self._samples, {}
        for row in balances:
            place = (row.account, row.axis, row.window)
            samples = before.get(place, deque(maxlen=_MOST))
            if samples and row.spent < samples[-1][1]:
                samples.clear()  # another window, or what a rolling one gave back
            while samples and samples[0][0] < now - _SPAN_S:
                samples.popleft()
            samples.append((now, row.spent))
            self._samples[place] = samples

    def rates(self) -> dict[Place, int]:
        """Return the rate of each limit by the hour, of those known for 10 seconds or more."""
        found = {}
        for place, samples in self._samples.items():
            (first, before), (last, spent) = samples[0], samples[-1]
            if last - first >= _LEAST_S:
                found[place] = (spent - before) * HOUR_S // (last - first)
        return found

    def steps(self, place: Place, most: int) -> list[int]:
        """Return how much was spent between the last samples of a limit, the newest last."""
        samples = list(self._samples.get(place, ()))[-most - 1 :]
        return [spent - before for (_, before), (_, spent) in pairwise(samples)]

"""What was spent of each limit of an account, window by window."""

from collections.abc import Iterable
from typing import NamedTuple

from budget_core.ledger.hold import Balance
from budget_core.ledger.window_words import rolling_seconds
from budget_cpython.ledger.windows import parse_window

_MOST = 48  # windows in a series


class PastWindows(NamedTuple):
    """One limit of an account: its balance now, and those of windows that are over.

    `past` begins with the newest. Windows in which nothing was counted may be missing there. Those
    of a rolling window are its buckets in which something was spent.
    """

    now: Balance
    past: list[Balance]

    def series(self) -> list[int]:
        """Return the amounts spent by window, the oldest first, the current one last.

        Windows in which nothing was counted are 0; there are at most 48. Of a rolling window they
        are the buckets in which something was counted.
        """
        if self.is_rolling:
            return [row.spent for row in reversed(self.past)]
        found = [self.now.spent]
        window = parse_window(self.now.window)
        spent = {row.begins_at: row.spent for row in self.past}
        oldest = min(spent, default=self.now.begins_at)
        begins_at = self.now.begins_at
        while begins_at > oldest and len(found) < _MOST:
            begins_at = window.bounds((begins_at - 1) * 1000)[1] // 1000
            found.append(spent.get(begins_at, 0))
        return found[::-1]

    @property
    def is_rolling(self) -> bool:
        """Whether it is rolling: then `now` is a sum over several of its buckets."""
        return rolling_seconds(self.now.window) > 0


def past_windows(balances: Iterable[Balance], history: Iterable[Balance]) -> list[PastWindows]:
    """Return the windows of each limit of one account, by axis and window.

    `balances` are the account's own of now, `history` as `LedgerProtocol.history` returns it.
    """
    past: dict[tuple[str, str], list[Balance]] = {}
    for row in history:
        past.setdefault((row.axis, row.window), []).append(row)
    rows = sorted(balances, key=lambda row: (row.axis, row.window))
    found = [PastWindows(row, past.get((row.axis, row.window), [])) for row in rows]
    return [
        one._replace(past=[row for row in one.past if row.spent]) if one.is_rolling else one
        for one in found
    ]

"""A report of what was spent in a time, and what happened meanwhile."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, Journal, LedgerEvent
from budget_cpython.ops.account_tree import AccountStatus, accounts_of, by_urgency

_AT_ONCE = 10_000  # events that are asked for at a time
_KINDS = ("refused", "threshold", "forecast", "limits")


class SpendingReport(NamedTuple):
    """The spending on `path` and below it, empty for all, from `since` until `until`.

    - `since`, `until`: Unix seconds; `since` is the beginning of an hour.
    - `rows`: what was used, by hour, path, model and tool.
    - `events`: refusals, thresholds, forecasts and changed limits, in their order.
    - `accounts`: those there are now, nearest their end first.
    """

    path: str
    since: int
    until: int
    rows: list[HourOfUsage]
    events: list[LedgerEvent]
    accounts: list[AccountStatus]

    def of_kind(self, *kinds: str) -> list[LedgerEvent]:
        """Return the events of these kinds."""
        return [one for one in self.events if one.kind in kinds]

    @property
    def refused(self) -> int:
        """How many calls were refused."""
        return sum(one.times for one in self.of_kind("refused"))


def read_report(ledger: Journal, path: str, since: int, until: int, now: int) -> SpendingReport:
    """Read a report from a ledger; the hour in which `since` lies is whole.

    Raises `LedgerUnavailableError`.
    """
    since -= since % HOUR_S
    rows = [row for row in ledger.usage(path, since) if row.hour < until]
    events = [one for one in _events(ledger, path) if since <= one.at < until]
    accounts = by_urgency(accounts_of(ledger.balances(path), now))
    return SpendingReport(path, since, until, rows, events, accounts)


def _events(ledger: Journal, path: str, kinds: Sequence[str] = _KINDS) -> Iterable[LedgerEvent]:
    after = 0
    while found := ledger.events(path, kinds, after, _AT_ONCE):
        yield from found
        after = found[-1].number

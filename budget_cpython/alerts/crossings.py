"""Crossings of limits, noted once each in the log of a ledger."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from hashlib import sha256

from budget_core.ledger.hold import Balance
from budget_core.ledger.window_words import rolling_seconds
from budget_core.wall_clock import DAY
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.ledger.journal import JournaledLedger, LedgerEvent
from budget_cpython.ops.forecast import limit_status

_AT_ONCE = 500  # events of one note
_MOST_KNOWN = 200_000  # names
_LONGEST = 400  # characters of a name; a longer account is in it by its digest


class CrossingWatch:
    """Notes the shares of limits that were crossed, and forecasts, as some channels want them.

    What is spent in a window seldom falls, so that a crossing is also found later: of a window that
    ended since the last look, or up to a day ago. `clock` returns Unix seconds.
    """

    def __init__(
        self,
        ledger: JournaledLedger,
        channels: Sequence[AlertChannel],
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._wants = cache(partial(_wanted, channels))  # no cycle: a ledger left open is freed
        self._windows: dict[tuple[str, str, str], int] = {}  # when each began, at the last look
        self._known: set[str] = set()

    def note_crossings(self) -> int:
        """Note the crossings, and return how many of them nobody had noted before.

        Raises the ledger's errors; the next look then finds what is missing.
        """
        now = int(self._clock())
        balances = self._ledger.balances()
        found = {event.name: event for row in balances for event in self._crossed(row, now)}
        windows = {(row.account, row.axis, row.window): row.begins_at for row in balances}
        for row in self._ended(balances, now):
            found.update({event.name: event for event in self._crossed(row, now)})
        fresh = [event for name, event in found.items() if name not in self._known]
        noted = 0
        for start in range(0, len(fresh), _AT_ONCE):
            part = fresh[start : start + _AT_ONCE]
            noted += sum(map(bool, self._ledger.note(part)))
            self._known.update(event.name for event in part)
        if len(self._known) > _MOST_KNOWN:
            self._known = set(found)
        self._windows = windows
        return noted

    def _crossed(self, row: Balance, now: int) -> Iterator[LedgerEvent]:
        """Yield the events of a balance, those of windows that ended over a day ago left out."""
        if row.limit is None or (row.resets_at is not None and row.resets_at <= now - DAY):
            return
        percents, forecasts = self._wants(row.account)
        for percent in percents:
            if not row.spent or 100 * row.spent < percent * row.limit:
                break
            yield _event("threshold", row, f"{percent}/", percent=percent)
        if forecasts and (row.resets_at is None or row.resets_at > now):
            status = limit_status(row, now)
            if status.ends_early:
                yield _event("forecast", row, empty_at=status.empty_at)

    def _ended(self, balances: Sequence[Balance], now: int) -> Iterator[Balance]:
        """Yield the balances of windows that ended since the last look, at the first in a day."""
        since: dict[str, dict[tuple[str, str], int]] = {}
        for row in balances:
            if row.limit is None or rolling_seconds(row.window):
                continue  # what a rolling window counts is still there
            before = self._windows.get((row.account, row.axis, row.window), now - DAY)
            if before < row.begins_at and self._wants(row.account)[0]:
                since.setdefault(row.account, {})[row.axis, row.window] = before
        for account, limits in since.items():
            for row in self._ledger.history(account):
                before = limits.get((row.axis, row.window), now)
                if row.resets_at is not None and row.resets_at > before:
                    yield row


def _event(kind: str, row: Balance, share: str = "", **more: int | None) -> LedgerEvent:
    """Return an event with the name that it has in all processes.

    A changed limit has crossings of its own, so the limit is a part of it. A rolling window has
    one crossing in each of its lengths.
    """
    begins_at = row.begins_at
    if seconds := rolling_seconds(row.window):
        begins_at -= begins_at % seconds
    rest = f"{row.axis}/{row.window}/{begins_at}/{share}{row.limit}"
    account = row.account
    if len(account) + len(rest) > _LONGEST:
        account = f"#{sha256(account.encode()).hexdigest()}"
    details = {
        "axis": row.axis,
        "window": row.window,
        "begins_at": row.begins_at,
        "resets_at": row.resets_at,
        "cap": row.limit,
        "spent": row.spent,
        **more,
    }
    return LedgerEvent(kind, row.account, details, f"{kind}/{account}/{rest}")


def _wanted(channels: Sequence[AlertChannel], account: str) -> tuple[list[int], bool]:
    """Return the percents at which some channel wants an alert, and whether of forecasts."""
    for_it = [channel for channel in channels if channel.is_for(account)]
    percents = sorted({percent for channel in for_it for percent in channel.at})
    return percents, any(channel.forecast for channel in for_it)

"""A tracker's usage, counted on an account of a ledger where others count too."""

from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.limit import Limit
from budget_core.ledger.outbox import Outbox, check_account, finish
from budget_core.ledger.window import parse_window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class LedgerCount:
    """The account of a ledger that a tracker charges and is limited by.

    This one is for turns: the tracker counts a turn, the account all turns.

    The tracker's tokens and calls are charged to `path` as they are recorded. Before each call the
    account's balance is read, and the least that is left there and above caps the tracker. Charges
    that fail wait in the `outbox`.

    All methods run under the tracker's lock; `read` and `charge` set its `store_error`. Raises
    `ValueError` for a ledger that is awaited or does not count tokens and calls, and for a
    malformed path.
    """

    def __init__(self, tracker: "Any", ledger: "Any", path: "Any") -> None:
        self.path = check_account(ledger, path, ("charge", "balance"))
        self.tracker = tracker
        self.ledger = ledger
        self.outbox = Outbox()
        self._tokens = self._calls = 0  # of the tracker's counts: in the ledger or the outbox
        self._opened = False

    def begin(self) -> None:
        """Have the tracker ask before and after each call; raise if that can never work."""
        tracker = self.tracker
        tracker.saves_from = 0
        tracker.maybe_auto_reset()
        if isinstance(tracker.store_error, (ValueError, UnknownAccountError)):
            raise tracker.store_error

    def read(self) -> None:
        """Charge what is owed and read the balance, before a call."""
        self._exchange(True)

    def charge(self) -> None:
        """Charge what was recorded since the last time."""
        self._notice_reset()
        self._exchange(False)

    def _collect(self) -> None:
        tracker = self.tracker
        new = {
            "tokens": tracker.total_tokens - self._tokens,
            "calls": tracker.iterations_seen - self._calls,
        }
        self._tokens, self._calls = tracker.total_tokens, tracker.iterations_seen
        if any(new.values()):
            self.outbox.charge(self.path, new)

    def _exchange(self, reads: bool) -> None:
        self._collect()
        try:
            if not self._opened:
                self._open()
                self._opened = True
            error = finish(self.outbox.deliver_all(self._ask))
            if reads:
                self._reopened(lambda: self._apply(self.ledger.balance(self.path)))
        except Exception as failure:  # noqa: BLE001 - whatever a ledger raises, the budget holds
            error = failure
        self.tracker.note_outage(error)

    async def _ask(self, operation: str, *arguments: "Any") -> "Any":
        return self._reopened(lambda: getattr(self.ledger, operation)(*arguments))

    def _reopened(self, ask: "Callable[[], Any]") -> "Any":
        """Return the ledger's result; open the account again if it was removed meanwhile."""
        try:
            return ask()
        except UnknownAccountError:
            self._open()
            return ask()

    def _open(self) -> None:
        """Check that the account takes all that will be charged."""
        blocking(self.ledger.charge(self.path, {"tokens": 0, "calls": 0}))

    def _notice_reset(self) -> None:
        """Continue after a reset of the tracker, which undoes no charge."""
        tracker = self.tracker
        if tracker.iterations_seen < self._calls:
            self._tokens = self._calls = 0

    def _apply(self, rows: "list[Any]") -> None:
        """Take the tracker's caps from balances, and from its own configuration."""
        tracker, config = self.tracker, self.tracker.config
        tracker.token_cap = _cap(config.token_budget, rows, "tokens", tracker.total_tokens)
        calls = tracker.iterations_seen
        tracker.iteration_cap = _cap(config.iteration_budget, rows, "calls", calls)


class LedgerDay(LedgerCount):
    """A day's tokens, which all processes that use the account share."""

    def __init__(self, tracker: "Any", ledger: "Any", path: "Any") -> None:
        if tracker._store is not None:
            raise ValueError("store and ledger are two places for one count: give one of them")
        super().__init__(tracker, ledger, path)
        self._window = parse_window(f"day@{tracker.config.reset_hour_utc}").name
        self._began: int | None = None
        tracker.covered = -1

    def _open(self) -> None:
        """Give the account the day's limit; an unlimited day keeps one that exists."""
        wanted = Limit("tokens", self.tracker.config.daily_budget, self._window)
        known = blocking(self.ledger.limits(self.path))
        others = [one for one in known if (one.axis, one.window) != ("tokens", self._window)]
        if wanted not in known and (wanted.cap is not None or len(others) == len(known)):
            self.ledger.set_limits(self.path, others + [wanted])
        super()._open()

    def _notice_reset(self) -> None:
        tracker = self.tracker
        tracker.total_tokens = max(tracker.total_tokens, self._tokens)
        self._calls = min(tracker.iterations_seen, self._calls)

    def _apply(self, rows: "list[Any]") -> None:
        """Take over the ledger's count of the day and its limit; begin a new day with it."""
        tracker = self.tracker
        for row in rows:
            if (row.account, row.axis, row.window) == (self.path, "tokens", self._window):
                tracker._window.start, tracker._window.end = row.begins_at, row.resets_at
                if self._began not in (None, row.begins_at):
                    tracker._forget()
                    self._calls = 0
                self._began = row.begins_at
                tracker.total_tokens = self._tokens = row.spent
                tracker.token_cap = _cap(row.limit, rows, "tokens", row.spent)
                tracker.iteration_cap = _cap(None, rows, "calls", tracker.iterations_seen)
                return
        raise UnknownAccountError(self.path)


def ledger_count(tracker: "Any", ledger: "Any", path: "Any") -> LedgerCount:
    """Return the counter of a day's or a turn's tracker."""
    kind = LedgerDay if tracker.SCOPE == "daily" else LedgerCount
    return kind(tracker, ledger, path)


def _cap(own: int | None, rows: "list[Any]", axis: str, used: int) -> int | None:
    """Return the lower of a tracker's own cap and what it has used plus the least that is left."""
    caps = [used + row.left for row in rows if row.axis == axis and row.left is not None]
    if own is not None:
        caps.append(own)
    return min(caps) if caps else None


def blocking(value: "Any") -> "Any":
    """Return a ledger's result; raise `ValueError` for a ledger that has to be awaited."""
    if hasattr(value, "__await__") or hasattr(value, "send"):
        value.close()
        raise ValueError("ledger must be one that blocks: a tracker records without waiting")
    return value

"""Have a tracker count on an account of a ledger, which others count on as well."""

from binascii import hexlify
from os import urandom

from budget_core.errors import refuse
from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.limit import Limit, check_path
from budget_core.ledger.llm_account import OUT_OF_REACH, is_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def share(tracker: "Any", store: "Any" = None, **shared: "Any") -> None:
    """Have a tracker that was just made count on an account of a ledger that blocks.

    Raises `ValueError` for a store beside it, for a ledger that is awaited or does not count both
    tokens and calls, and for no path; `UnknownAccountError` for a turn's account that is none.
    """
    if not is_given(shared, "ledger", "account"):
        if store is not None:
            tracker._restore()
        return
    if store is not None:
        raise ValueError("store and ledger are two places for one count: give one of them")
    ledger, account = shared.get("ledger"), shared.get("account")
    if not hasattr(ledger, "charge") or not hasattr(ledger, "balance"):
        refuse("ledger", "a Ledger", ledger)
    if not account:
        refuse("account", "the path of an account in the ledger", account)
    daily = hasattr(tracker.config, "daily_budget")
    count = (SharedDay if daily else SharedTurn)(tracker, ledger, check_path(account))
    tracker.ledger = ledger
    tracker.shared = count
    tracker.maybe_auto_reset = count.look
    tracker._save = count.tell
    tracker.count.expires = True
    tracker.count.saves_from = 0
    count.look()
    if isinstance(tracker.store_error, (ValueError, UnknownAccountError)):
        raise tracker.store_error


class SharedCount:
    """What a tracker counts, as far as the ledger was told and as far as it was not.

    Its tokens and calls are charged to `path` as they are recorded. Before each call the account's
    balance is read: of what others leave, here and above, the least is left. What the ledger could
    not be told is told later, each charge once.
    """

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        self.tracker = tracker
        self.ledger = ledger
        self.path = path
        self.tokens = self.calls = 0  # of the tracker's, as many as were told or are being told
        self._untold: list[tuple[dict[str, int], str]] = []  # but the first, never tried
        self._opened = False
        tracker.store_error = None

    def look(self) -> None:
        """Read the balance, before a call."""
        with self.tracker.count.lock:
            self._do(True)
            self.tracker._arm()

    def tell(self, ahead: int = 0) -> None:
        """Charge what was recorded; under the tracker's lock, as its `_save`."""
        count = self.tracker.count
        count.tokens = max(count.tokens, self.tokens)  # a reset undoes no charge
        self.calls = min(count.iterations, self.calls)
        self._do(False)

    def _do(self, reads: bool) -> None:
        tracker = self.tracker
        try:
            try:
                self._tell(reads)
            except UnknownAccountError:
                if not self._opened:
                    raise
                self._opened = False  # somebody removed the account meanwhile
                self._tell(reads)
            tracker.store_error = None
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the budget holds
            tracker.store_error = error

    def _tell(self, reads: bool) -> None:
        """Charge what is new; what was in doubt before goes first, with the key it had."""
        self._collect()
        if not self._opened:
            self.open()
            self._opened = True
        while self._untold:
            self.ledger.charge(self.path, *self._untold[0])
            self._untold.pop(0)
        if reads:
            self.read(self.ledger.balance(self.path))

    def open(self) -> None:
        """Make sure that all that will be charged can be."""
        blocking(self.ledger.charge(self.path, {"tokens": 0, "calls": 0}))

    def _collect(self) -> None:
        count = self.tracker.count
        new = {"tokens": count.tokens - self.tokens, "calls": count.iterations - self.calls}
        self.tokens, self.calls = count.tokens, count.iterations
        if not any(new.values()):
            return
        if len(self._untold) > 1:
            more = self._untold.pop()[0]
            new = {axis: new[axis] + more[axis] for axis in new}
        self._untold.append((new, "count-" + hexlify(urandom(8)).decode()))

    def read(self, rows: "list[Any]") -> None:
        """Take over what is left of all limits on the account."""
        count = self.tracker.count
        tokens, calls = self.caps(rows)
        count.token_cap = _cap(tokens, rows, "tokens", count.tokens)
        count.iteration_cap = _cap(calls, rows, "calls", count.iterations)

    def caps(self, rows: "list[Any]") -> "tuple[int | None, int | None]":
        """Return the tracker's own caps on tokens and on calls."""
        raise NotImplementedError


class SharedDay(SharedCount):
    """A day's tokens, which all processes that count on the account share."""

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        hour = tracker.config.reset_hour_utc
        self.window = f"day@{hour}" if hour else "day"
        self._began: int | None = None
        super().__init__(tracker, ledger, path)

    def open(self) -> None:
        """Give the account the day's limit; an unlimited day leaves one that is there."""
        wanted = Limit("tokens", self.tracker.config.daily_budget, self.window)
        known = blocking(self.ledger.limits(self.path))
        others = [one for one in known if (one.axis, one.window) != ("tokens", self.window)]
        if wanted not in known and (wanted.cap is not None or len(others) == len(known)):
            self.ledger.set_limits(self.path, others + [wanted])
        super().open()

    def caps(self, rows: "list[Any]") -> "tuple[int | None, int | None]":
        """Take over the day's count, and begin a new day with the ledger's; return its limit."""
        for row in rows:
            if (row.account, row.axis, row.window) == (self.path, "tokens", self.window):
                tracker = self.tracker
                tracker._window.start, tracker._window.end = row.begins_at, row.resets_at
                if self._began not in (None, row.begins_at):
                    tracker._forget()
                    self.calls = 0
                self._began = row.begins_at
                tracker.count.tokens = self.tokens = row.spent
                return row.limit, None
        raise UnknownAccountError(self.path)


class SharedTurn(SharedCount):
    """A turn's tokens and calls: one tracker counts the turn, and all that it uses is charged."""

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        super().__init__(tracker, ledger, path)
        self._is_spent = tracker.is_at_limit
        self._spent_message = tracker.at_limit_message
        tracker.reset = self.begin
        tracker.is_at_limit = self.is_at_limit
        tracker.at_limit_message = self.at_limit_message

    def caps(self, rows: "list[Any]") -> "tuple[int | None, int | None]":
        """Return the turn's own."""
        config = self.tracker.config
        return config.token_budget, config.iteration_budget

    def begin(self) -> None:
        """Begin another turn; the tracker's `reset`."""
        tracker = self.tracker
        with tracker.count.lock:
            self.tell()
            tracker._forget()
            self.tokens = self.calls = 0
            tracker._arm()

    def is_at_limit(self) -> bool:
        """Tell whether the turn is spent, or its ledger out of reach."""
        return self._is_spent() or self.tracker.store_error is not None

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return what to say at the limit, or that the ledger cannot be asked."""
        if self.tracker.store_error is not None:
            return OUT_OF_REACH
        return str(self._spent_message(enforcement))


def _cap(own: int | None, rows: "list[Any]", axis: str, used: int) -> int | None:
    """Return the tracker's cap: its own, or what is used and the least that is left."""
    caps = [None if row.left is None else used + row.left for row in rows if row.axis == axis]
    known = [cap for cap in [own] + caps if cap is not None]
    return min(known) if known else None


def blocking(value: "Any") -> "Any":
    """Return what a ledger returned at once; refuse one that is awaited."""
    if hasattr(value, "__await__") or hasattr(value, "send"):
        value.close()
        raise ValueError("ledger must be one that blocks: a tracker records without waiting")
    return value

"""Have a tracker count on an account of a ledger, which others count on as well."""

from binascii import hexlify
from os import urandom

from budget_core.account import MAX_DEPTH, Limit, chain, check_path
from budget_core.errors import refuse
from budget_core.ledger_call import OUT_OF_REACH
from budget_core.ledger_errors import UnknownAccountError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


def share(
    tracker: "Any", store: "Any" = None, ledger: "Any" = None, account: str | None = None
) -> None:
    """Have a tracker that was just made count on an account of a ledger that blocks.

    Raises `ValueError` for a store beside it, for a ledger that is awaited, and for no path.
    """
    if store is not None:
        raise ValueError("store and ledger are two places for one count: give one of them")
    if not hasattr(ledger, "charge") or not hasattr(ledger, "balance"):
        refuse("ledger", "a Ledger", ledger)
    path = check_path(account)
    daily = hasattr(tracker.config, "daily_budget")
    count = (SharedDay if daily else SharedTurn)(tracker, ledger, path)
    tracker.ledger = ledger
    tracker.shared = count
    tracker.maybe_auto_reset = count.look
    tracker._save = count.tell
    tracker.count.expires = True
    tracker.count.saves_from = 0
    count.look()
    if isinstance(tracker.store_error, ValueError):
        raise tracker.store_error


class SharedCount:
    """What a tracker counts, as far as the ledger was told and as far as it was not.

    Its tokens and calls are charged to `path` as they are recorded. Before each call the account's
    balance is read: what others have charged is used, and of what they leave, here and above, the
    least is left. What the ledger could not be told is told later, each charge once.
    """

    window = "run"

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        self.tracker = tracker
        self.ledger = ledger
        self.path = path
        self.tokens = self.calls = 0  # of the tracker's, as many as were told or are being told
        self._above = path
        self._untold: list[tuple[str, dict[str, int], str]] = []  # but the first, never tried
        self._opened = False
        tracker.store_error = None

    def limits(self) -> "list[Limit]":
        """Return the limits that the account is to have at least."""
        raise NotImplementedError

    def look(self) -> None:
        """Read the balance, before a call."""
        tracker = self.tracker
        with tracker.count.lock:
            try:
                self._open()
                self._tell()
                self.read(self.ledger.balance(self.path))
                tracker.store_error = None
            except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the budget holds
                tracker.store_error = error
            tracker._arm()

    def tell(self, ahead: int = 0) -> None:
        """Charge what was recorded; under the tracker's lock, as its `_save`."""
        tracker = self.tracker
        count = tracker.count
        count.tokens = max(count.tokens, self.tokens)  # a reset undoes no charge
        self.calls = min(count.iterations, self.calls)
        try:
            self._open()
            self._tell()
            tracker.store_error = None
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the record stands
            tracker.store_error = error

    def _open(self) -> None:
        """Give the account the limits that it lacks; those that it has stay as they are."""
        if self._opened:
            return
        known = _settled(self.ledger.limits(self.path))
        there = [(limit.axis, limit.window) for limit in known]
        lacking = [one for one in self.limits() if (one.axis, one.window) not in there]
        if lacking:
            self.ledger.set_limits(self.path, list(known) + lacking)
        self._opened = True

    def _tell(self) -> None:
        """Charge what is new; what was in doubt before goes first, with the key it had."""
        self._collect()
        while self._untold:
            try:
                self.ledger.charge(*self._untold[0])
            except UnknownAccountError:  # a turn's that is over, and nobody counts above it
                if self._untold[0][0] == self.path:
                    raise
            self._untold.pop(0)

    def _collect(self) -> None:
        count = self.tracker.count
        new = {"tokens": count.tokens - self.tokens, "calls": count.iterations - self.calls}
        self.tokens, self.calls = count.tokens, count.iterations
        if not any(new.values()):
            return
        if len(self._untold) > 1 and self._untold[-1][0] == self.path:
            new = _sum(new, self._untold.pop()[1])
        self._untold.append((self.path, new, "count-" + hexlify(urandom(8)).decode()))

    def read(self, rows: "list[Any]") -> None:
        """Take over what the account has counted, and what is left of all limits on it."""
        tracker = self.tracker
        own = [row for row in rows if row.account == self.path and row.window == self.window]
        count = tracker.count
        for row in own:
            if row.axis == "tokens":
                count.tokens = self.tokens = row.spent
        count.token_cap = _cap(rows, own, "tokens", count.tokens)
        count.iteration_cap = _cap(rows, own, "calls", count.iterations)


class SharedDay(SharedCount):
    """A day's tokens, which all processes that count on the account share."""

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        hour = tracker.config.reset_hour_utc
        self.window = f"day@{hour}" if hour else "day"
        self._began: int | None = None
        super().__init__(tracker, ledger, path)

    def limits(self) -> "list[Limit]":
        """Return the day's limit."""
        return [Limit("tokens", self.tracker.config.daily_budget, self.window)]

    def read(self, rows: "list[Any]") -> None:
        """Begin a new day with the ledger's; take over its count."""
        for row in rows:
            if (row.account, row.axis, row.window) == (self.path, "tokens", self.window):
                day = self.tracker._window
                day.start, day.end = row.begins_at, row.resets_at
                if self._began not in (None, row.begins_at):
                    self.tracker._forget()
                    self.calls = 0
                self._began = row.begins_at
        super().read(rows)


class SharedTurn(SharedCount):
    """A turn's tokens and calls, on an account of its own below the one given.

    It is removed when the next turn begins; those above keep what it used.
    """

    def __init__(self, tracker: "Any", ledger: "Any", path: str) -> None:
        if len(chain(path)) >= MAX_DEPTH:
            raise ValueError(f"account must have fewer than {MAX_DEPTH} segments, not {path!r}")
        super().__init__(tracker, ledger, path)
        self._over: list[str] = []
        self._name()
        self._is_spent = tracker.is_at_limit
        self._spent_message = tracker.at_limit_message
        tracker.reset = self.begin
        tracker.is_at_limit = self.is_at_limit
        tracker.at_limit_message = self.at_limit_message

    def _name(self) -> None:
        self.path = f"{self._above}/turn-{hexlify(urandom(6)).decode()}"
        self._opened = False

    def limits(self) -> "list[Limit]":
        """Return the turn's limits."""
        config = self.tracker.config
        caps = (("tokens", config.token_budget), ("calls", config.iteration_budget))
        return [Limit(axis, cap, self.window) for axis, cap in caps]

    def begin(self) -> None:
        """Begin another turn, on an account of its own; the tracker's `reset`."""
        tracker = self.tracker
        with tracker.count.lock:
            self.tell()
            self._collect()
            self._merge()
            if self._opened:
                self._over.append(self.path)
            self._name()
            tracker._forget()
            self.tokens = self.calls = 0
            tracker._arm()

    def _merge(self) -> None:
        """Owe what turns that are over used as one charge above them, but for what was tried."""
        if len(self._untold) > 2:
            _, used, key = self._untold.pop()
            self._untold[1] = (self._above, _sum(used, self._untold[1][1]), key)

    def _tell(self) -> None:
        super()._tell()
        while self._over:
            self.ledger.set_limits(self._over[-1], [])
            self._over.pop()

    def is_at_limit(self) -> bool:
        """Tell whether the turn is spent, or its ledger out of reach."""
        return self._is_spent() or self.tracker.store_error is not None

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return what to say at the limit, or that the ledger cannot be asked."""
        if self.tracker.store_error is not None:
            return OUT_OF_REACH
        return str(self._spent_message(enforcement))


def _cap(rows: "list[Any]", own: "list[Any]", axis: str, used: int) -> int | None:
    """Return the tracker's cap: its account's own, or what is used and the least that is left."""
    caps = [row.limit for row in own if row.axis == axis]
    caps += [None if row.left is None else used + row.left for row in rows if row.axis == axis]
    known = [cap for cap in caps if cap is not None]
    return min(known) if known else None


def _sum(used: "dict[str, int]", more: "dict[str, int]") -> "dict[str, int]":
    return {axis: used[axis] + more[axis] for axis in used}


def _settled(value: "Any") -> "Any":
    if hasattr(value, "__await__") or hasattr(value, "send"):
        value.close()
        raise ValueError("ledger must be one that blocks: a tracker records without waiting")
    return value

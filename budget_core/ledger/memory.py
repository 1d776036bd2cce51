"""A ledger in memory: the limits of accounts, and the holds of the calls that share them."""

from budget_core.checks import check_count
from budget_core.ledger.bucket import Bucket
from budget_core.ledger.checks import chain, check_path
from budget_core.ledger.errors import LedgerFullError, UnknownAccountError
from budget_core.ledger.hold import Balance, wake
from budget_core.ledger.limit import Limit, LimitReader
from budget_core.ledger.memory_holds import MemoryHolds
from budget_core.ledger.window import NO_DATE, parse_window
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.hold import Process
    from budget_core.ledger.memory_holds import Buckets
    from budget_core.ledger.window import Window


KEPT = 32  # windows that are over, of each limit


class CountedLimit:
    """One limit of one account: its current bucket, and those of windows that are over."""

    __slots__ = ("account", "axis", "bucket", "past", "place", "window")

    def __init__(self, account: str, axis: str, window: "Window", bucket: "Any" = None) -> None:
        self.account = account
        self.axis = axis
        self.window = window
        self.place = (account, axis, window.name)
        self.bucket: Bucket = bucket
        self.past: list[Bucket] = []

    def change(self, cap: int | None, now: int) -> None:
        """Set the cap from now on, and leave a window that has not begun yet."""
        if self.bucket is None:
            _, start, end = self.window.bounds(now)
            self.bucket = Bucket(self.place, start, end)
        elif now >= self.bucket.end or 0 < now < self.bucket.start:
            self.follow(now)
        self.bucket.cap = cap

    def follow(self, now: int) -> None:
        """Move to the window of `now`, with its count if it was counted before.

        What was counted while the date was unknown counts for the first window that is known. A
        move back to a window that was not counted before refills nothing.
        """
        first, start, end = self.window.bounds(now)
        bucket = self.bucket
        again = [one for one in self.past if one.start == start]
        if bucket.end == NO_DATE or (start < bucket.start and not again):
            bucket.start, bucket.end = start, end
        else:
            self.bucket = again[0] if again else Bucket(self.place, start, end)
            self.bucket.cap = bucket.cap
            self.past = [bucket] + [one for one in self.past if one is not self.bucket]
        self.bucket.earlier = [one for one in self.past if first <= one.start < start]
        self.past = [
            one for at, one in enumerate(self.past) if at < KEPT or first <= one.start or one.held
        ]

    def newest(self) -> "list[Bucket]":
        """Return the buckets of windows that are over, the newest first."""
        return sorted(self.past, key=lambda one: one.start, reverse=True)

    def limit(self) -> Limit:
        """Return the limit as it was configured."""
        return Limit(self.axis, self.bucket.cap, self.window.name)


class Ledger(MemoryHolds):
    """Budgets by path, such as `org/team/agent`: usage below counts on every account above too.

    An account is a path that was given limits. A path without limits draws on the accounts above
    it, and is refused if there are none.

    `clock` returns Unix seconds, and 0 while it does not know the date. `lock` is any context
    manager; without one a ledger is for one thread. `windows` reads the names of windows. Limits
    and amounts are on `axes` only; without them a reservation is refused on an axis that is none of
    `AXES` and that no limit on its path counts. There are at most `max_accounts` accounts and
    `max_holds` live holds. A settled hold with a key is known for `keep` seconds at least, and up
    to twice as long.

    This ledger is in memory, and defines what every other engine does; see docs/ledger.md.
    """

    IS_SHARED = False  # with other processes
    process: "Process"

    def __init__(
        self,
        clock: "Callable[[], float]" = WALL,
        lock: "Lock | None" = None,
        *,
        windows: "Callable[[Any], Window]" = parse_window,
        axes: "Sequence[str] | None" = None,
        max_accounts: int = 1_000_000,
        max_holds: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        super().__init__(clock, lock, max_holds, keep)
        self._reader = LimitReader(windows, axes)
        self._axes = self._reader.known
        self._max_accounts = check_count("max_accounts", max_accounts)

    def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Give an account these limits and no others, now; an empty list removes the account.

        What a limit on the same axis and window has counted stays counted: one below what is spent
        denies until its window ends. Holds stay live. A window that has not begun yet, because a
        clock was wrong, is left.

        Raises `ValueError` for two limits on one axis and window, for more than 16, and for a
        malformed path, axis or window; `LedgerFullError` for an account too many.
        """
        path = check_path(path)
        wanted = self._reader.read(limits)
        with self._lock:
            now = self._now()
            for _, window, _ in wanted:
                window.bounds(now)  # which may raise: nothing has changed yet
            own = self._accounts.get(path, ())
            if not own and wanted and self._count_accounts() >= self._max_accounts:
                text = f"the ledger has its {self._max_accounts} accounts: raise max_accounts"
                raise LedgerFullError(text)
            before = {(one.axis, one.window.name): one for one in own}
            counted = []
            for axis, window, cap in wanted:
                one = before.get((axis, window.name)) or CountedLimit(path, axis, window)
                one.change(cap, now)
                counted.append(one)
            if counted:
                self._accounts[path] = counted
            elif own:
                del self._accounts[path]
        wake(self, path)

    def limits(self, path: str) -> "list[Limit]":
        """Return an account's own limits, none for a path that is no account."""
        check_path(path)
        with self._lock:
            return [one.limit() for one in self._accounts.get(path, ())]

    def accounts(self) -> "list[str]":
        """Return the paths of all accounts, sorted."""
        with self._lock:
            return sorted(self._accounts)

    def balance(self, path: str) -> "list[Balance]":
        """Return the balance of each limit of the path and of all above it, the widest first.

        Within an account they are sorted by axis and window. Raises `UnknownAccountError`.
        """
        with self._lock:
            now = self._now()
            self._expire(now)
            limits = self._limits_along(check_path(path), now)
            return [Balance.of(one.bucket, *one.bucket.totals()) for one in limits]

    def history(self, path: str) -> "list[Balance]":
        """Return the balances of an account's own limits in past windows, the newest first.

        The last 32 of each limit are kept, by axis and window as in `balance`.
        """
        with self._lock:
            now = self._now()
            self._expire(now)
            limits = self._limits_along(check_path(path), now)
            over = [bucket for one in limits if one.account == path for bucket in one.newest()]
            return [Balance.of(bucket, bucket.spent, bucket.held) for bucket in over]

    def close(self) -> None:
        """Do nothing: this ledger ends with its process."""

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _count_accounts(self) -> int:
        return len(self._accounts)

    _paths = staticmethod(chain)  # on whose limits a path draws

    def _limits_along(self, path: str, now: int) -> "list[CountedLimit]":
        """Return the limits of the path and of all above it, in the windows of now."""
        found: list[CountedLimit] = []
        for place in self._paths(path):
            found += self._accounts.get(place, ())
        if not found:
            raise UnknownAccountError(path)
        for one in found:
            if now >= one.bucket.end:
                one.follow(now)
        return found

    def _buckets(self, path: str, now: int) -> "Buckets":
        """Return the buckets of now, by axis, of the path and of all above it."""
        found: Buckets = {}
        for one in self._limits_along(path, now):
            found[one.axis] = found.get(one.axis, ()) + (one.bucket,)
        return found

    def _check_axis(self, axis: str, counted: bool) -> None:
        self._reader.check_axis(axis, counted)

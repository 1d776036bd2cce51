"""Hold what calls may use, and record what they did, on accounts that many share."""

from budget_core.checks import NoLock, check_count
from budget_core.errors import refuse
from budget_core.ledger.bucket import COMMITTED, EXPIRED, HELD, RELEASED, CountedLimit
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    LedgerFullError,
    UnknownAccountError,
    UnknownHoldError,
    refusal,
)
from budget_core.ledger.limit import (
    LimitReader,
    chain,
    check_amounts,
    check_key,
    check_path,
    root,
)
from budget_core.ledger.records import TTL, Balance, Hold, check_hold, check_ttl, wake
from budget_core.ledger.window import FAR, parse_window
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.bucket import Bucket
    from budget_core.ledger.limit import Limit
    from budget_core.ledger.window import Window

    Buckets = dict[str, tuple[Bucket, ...]]  # by axis

_FEW_HOLDS = 64


class Ledger:
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
        self._reader = LimitReader(windows, axes)
        if not callable(clock):
            refuse("clock", "a function that returns Unix seconds", clock)
        self._clock = clock
        self._lock = lock or NoLock()
        self._max_accounts = check_count("max_accounts", max_accounts)
        self._max_holds = check_count("max_holds", max_holds)
        self._keep_ms = check_count("keep", keep) * 1000
        self._accounts: dict[str, list[CountedLimit]] = {}
        self._taken = 0
        self._live: dict[str, Hold] = {}
        self._sweep_at = min(_FEW_HOLDS, self._max_holds)
        self._soonest = FAR  # no live hold expires before
        self._settled: dict[str, Hold] = {}
        self._former: dict[str, Hold] = {}
        self._turned = 0

    def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Give an account these limits and no others, now; an empty list removes the account.

        What a limit on the same axis and window has counted stays counted: one below what is spent
        denies until its window ends. Holds stay live. A window that has not begun yet, because a
        clock was wrong, is left.

        Raises `ValueError` for two limits on one axis and window, for more than 16, and for a
        malformed path, axis or window; `LedgerFullError` for an account too many.
        """
        path = check_path(path)
        wanted = self._read_limits(limits)
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

    def reserve(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts, by axis, in one step on every limit of the path and of all above it.

        The hold is live for `ttl` seconds; not settled by then, it counts as spent. An amount of
        `None` has no bound: any cap on its axis refuses it, and nothing of it is held. The `key` of
        an earlier operation below the same root returns that operation's hold, whatever became of
        it, and holds nothing more.

        Where others hold what is missing, it waits up to `wait` seconds for its turn, the first to
        come first. This blocks the thread; `reserve_waiting` does the same in an event loop.

        Raises `BudgetExceededError` if a limit has too little left, for one that is spent before
        one that is held, then for the one that resets last; `UnknownAccountError`;
        `LedgerFullError`; `KeyReusedError` if the key stands for another path or other amounts;
        `ValueError` for a malformed path, amount, key, ttl or wait, and for an axis that nothing
        counts, which may be mistyped.
        """
        if wait:
            from budget_core.ledger.waiting import reserve_blocking  # most programs never wait

            return reserve_blocking(self, path, amounts, key, ttl, wait)
        return self._take(path, check_amounts(amounts, True), key, check_ttl(ttl))

    def charge(self, path: str, amounts: "dict[str, Any]", key: str | None = None) -> Hold:
        """Record amounts as spent without asking, also past a limit, and return them, committed.

        With the `key` of an earlier charge nothing more is recorded. Raises as `reserve` does, but
        for `BudgetExceededError`.
        """
        return self._take(path, check_amounts(amounts), key, None)

    def commit(self, hold: Hold, actual: "dict[str, Any] | None" = None) -> Hold:
        """Record what a call used in the place of its hold, in the windows the hold was taken in.

        More than was held, or than the limit, is recorded too. An axis that `actual` does not name
        counts at what was held; one that was not held is recorded all the same. A commit corrects a
        hold that had expired or was released. A second commit changes nothing.

        Returns the hold. Raises `UnknownHoldError` if it is no longer known.
        """
        used = {} if actual is None else check_amounts(actual)
        with self._lock:
            hold = self._find(hold)
            if hold.state != COMMITTED:
                for axis in used:
                    if axis not in self._reader.known:
                        self._reader.check_axis(axis)
                self._settle(hold, COMMITTED, dict(hold.amounts, **used))
            return hold

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made; a settled one stays as it is.

        Returns the hold. Raises `UnknownHoldError` if it is no longer known.
        """
        with self._lock:
            hold = self._find(hold)
            self._expire_one(hold, self._now())
            if hold.state == HELD:
                self._settle(hold, RELEASED, {})
            return hold

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now, and return it.

        Raises `HoldSettledError` if it is settled or has expired, `UnknownHoldError` if it is no
        longer known.
        """
        ttl_ms = check_ttl(ttl)
        with self._lock:
            hold = self._find(hold)
            now = self._now()
            self._expire_one(hold, now)
            if hold.state != HELD:
                raise HoldSettledError(hold.id, hold.state)
            hold.expires_ms = max(hold.expires_ms or 0, now + ttl_ms)
            return hold

    def expire(self) -> int:
        """Count expired holds as spent; return how many there were.

        A limit has no more left afterwards than before, so nothing depends on when this is done. It
        also happens from time to time by itself.
        """
        with self._lock:
            return self._expire(self._now())

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`, which is its key if it had one.

        Raises `UnknownHoldError`.
        """
        with self._lock:
            found = self._find(Hold(check_path(path), id))
            self._expire_one(found, self._now())
            return found

    def balance(self, path: str) -> "list[Balance]":
        """Return what stands against each limit of the path and of all above it, the widest first.

        Within an account they are sorted by axis and window. Raises `UnknownAccountError`.
        """
        with self._lock:
            now = self._now()
            self._expire(now)
            limits = self._limits_along(check_path(path), now)
            return [Balance.of(one.bucket, *one.bucket.totals()) for one in limits]

    def history(self, path: str) -> "list[Balance]":
        """Return what an account's own limits counted in windows that are over, the newest first.

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

    def _take(
        self, path: str, asked: "dict[str, int | None]", key: str | None, ttl_ms: int | None
    ) -> Hold:
        """Hold amounts, or, without a `ttl_ms`, record them as spent."""
        amounts: Any = asked
        if None in asked.values():
            amounts = {axis: asked[axis] for axis in asked if asked[axis] is not None}
        if path.__class__ is not str or path not in self._accounts:  # an account's was checked
            path = check_path(path)
        name = None if key is None else _name(path, key)
        with self._lock:
            now = self._now()
            known = None if name is None else self._known(name, path, amounts, ttl_ms is None)
            if known is not None:
                return known
            buckets = self._buckets(path, now)
            for axis in asked:
                if axis not in buckets and axis not in self._reader.known:
                    self._check_uncounted(axis, ttl_ms is None)
            hold = Hold(path, key or self._new_id(), amounts, RELEASED, None, None, buckets)
            if ttl_ms is None:
                self._settle(hold, COMMITTED, amounts)
                if name is not None:
                    self._forget_settled(now)
                    self._settled[name] = hold
            else:
                self._admit(buckets, asked)
                hold.state, hold.expires_ms = HELD, now + ttl_ms
                self._keep(name or hold.id, hold, now)
                for axis in amounts:
                    for bucket in buckets.get(axis, ()):
                        bucket.held += amounts[axis]
            return hold

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _new_id(self) -> str:
        self._taken = taken = self._taken + 1
        return f"#{taken}"

    def _read_limits(self, limits: "Any") -> "list[tuple[str, Window, int | None]]":
        return self._reader.read(limits)

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

    def _check_uncounted(self, axis: str, charged: bool) -> None:
        self._reader.check_axis(axis, charged)

    def _admit(self, buckets: "Buckets", asked: "dict[str, int | None]") -> None:
        """Raise `BudgetExceededError` if a limit has too little left."""
        refused = []
        for axis in asked:
            for bucket in buckets.get(axis, ()):
                short = bucket.shortage(asked[axis])
                if short is not None:
                    refused.append(short)
        if refused:
            raise refusal(refused, self._now())

    def _keep(self, name: str, hold: Hold, now: int) -> None:
        if name[0] != "#":
            self._forget_settled(now)
        if len(self._live) >= self._sweep_at:  # twice as many as there were: some may be over
            self._expire(now)
            self._sweep_at = min(self._max_holds, max(_FEW_HOLDS, 2 * len(self._live)))
            if len(self._live) >= self._max_holds:
                text = f"the ledger has its {self._max_holds} live holds: raise max_holds"
                raise LedgerFullError(text)
        self._soonest = min(self._soonest, hold.expires_ms or 0)
        self._live[name] = hold

    def _known(
        self, name: str, path: str, amounts: "dict[str, int]", charged: bool
    ) -> "Hold | None":
        hold = self._look_up(name)
        if hold is None:
            return None
        if hold.path != path or hold.amounts != amounts or (hold.expires_ms is None) != charged:
            raise KeyReusedError(path, hold.id)
        self._expire_one(hold, self._now())
        return hold

    def _find(self, hold: Hold) -> Hold:
        """Return the ledger's own object for a hold, or raise `UnknownHoldError`."""
        check_hold(hold)
        if hold.id[:1] == "#":
            found = self._live.get(hold.id)
            if found is None and hold.state != HELD:
                return hold
            if found is not hold and hold.buckets is not None:
                found = None  # it is another ledger's
        else:
            found = self._look_up(_name(check_path(hold.path), hold.id))
        if found is None or found.path != hold.path:
            raise UnknownHoldError(hold.path, hold.id)
        return found

    def _look_up(self, name: str) -> "Hold | None":
        return self._live.get(name) or self._settled.get(name) or self._former.get(name)

    def _expire(self, now: int) -> int:
        self._forget_settled(now)
        if now < self._soonest:
            return 0
        over = [hold for hold in self._live.values() if now >= (hold.expires_ms or 0)]
        for hold in over:
            self._expire_one(hold, now)
        self._soonest = min([FAR] + [hold.expires_ms or 0 for hold in self._live.values()])
        return len(over)

    def _expire_one(self, hold: Hold, now: int) -> None:
        if hold.state == HELD and now >= (hold.expires_ms or 0):
            self._settle(hold, EXPIRED, hold.amounts)

    def _settle(self, hold: Hold, state: str, used: "dict[str, int]") -> None:
        buckets = hold.buckets or {}
        was, amounts = hold.state, hold.amounts
        for axis in buckets:
            amount, spent = amounts.get(axis, 0), used.get(axis, 0)
            if amount or spent:
                for bucket in buckets[axis]:
                    bucket.settle(was, amount, spent)
        hold.state = state
        hold.actual = used
        wake(self, hold)
        if was != HELD:
            return
        if hold.id[0] == "#":
            self._live.pop(hold.id, None)
        else:
            name = _name(hold.path, hold.id)
            self._settled[name] = self._live.pop(name)

    def _forget_settled(self, now: int) -> None:
        """Forget what was settled too long ago: two dicts in turn are cheaper than many dates."""
        if now - self._turned >= self._keep_ms:
            self._former, self._settled = self._settled, {}
            self._turned = now


def _name(path: str, key: str) -> str:
    """Return the name of a hold: keys are of one root."""
    return root(path) + "/" + check_key(key)

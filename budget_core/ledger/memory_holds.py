"""The holds of calls in memory, each counted on the buckets of its axes."""

from budget_core.checks import NoLock, check_count
from budget_core.errors import refuse
from budget_core.ledger.bucket import COMMITTED, EXPIRED, FAR, HELD, RELEASED
from budget_core.ledger.checks import check_amounts, check_axis, check_key, check_path, root
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    UnknownHoldError,
    refusal,
)
from budget_core.ledger.hold import ROOMS, TTL, Hold, check_hold, check_ttl, wake
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.bucket import Bucket

    Buckets = dict[str, tuple[Bucket, ...]]  # by axis

_FEW_HOLDS = 64


class MemoryHolds:
    """The holds of a ledger in memory, by key or id, from the reservation to the settlement.

    A subclass says on which `_buckets` a path draws, and which axes it allows: always those of
    `_axes`, and others as `_check_axis` says. `_accounts` has what is counted, by path. A `Ledger`
    has limits of many accounts there, a lease what was leased.
    """

    _axes: "Sequence[str]" = ()

    def __init__(
        self,
        clock: "Callable[[], float]" = WALL,
        lock: "Lock | None" = None,
        max_holds: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        if not callable(clock):
            refuse("clock", "a function that returns Unix seconds", clock)
        self._clock = clock
        self._lock = lock or NoLock()
        self._max_holds = check_count("max_holds", max_holds)
        self._keep_ms = check_count("keep", keep) * 1000
        self._accounts: dict[str, Any] = {}
        self._taken = 0
        self._live: dict[str, Hold] = {}
        self._sweep_at = min(_FEW_HOLDS, self._max_holds)
        self._soonest = FAR  # no live hold expires before
        self._settled: dict[str, Hold] = {}
        self._former: dict[str, Hold] = {}
        self._turned = 0

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
        """Replace a hold by what its call used, in the windows in which it was taken.

        More than was held, or than the limit, is recorded too. An axis that `actual` does not name
        counts at what was held; one that was not held is recorded all the same. A commit corrects a
        hold that had expired or was released. A second commit changes nothing.

        Returns the hold. Raises `UnknownHoldError` if it is no longer known.
        """
        used = {} if actual is None else check_amounts(actual)
        with self._lock:
            hold = self._find(hold)
            self._commit(hold, used)
            return hold

    def renew(
        self,
        hold: Hold,
        actual: "dict[str, Any] | None",
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step.

        This is `commit` and then `reserve`, whatever became of the hold. If it raises, neither has
        happened: the hold is as it was. What a refusal shows as spent and held is what would be so
        after the commit. The `key` of an earlier reservation returns that one's hold, and the
        former hold is committed all the same.

        Raises as `commit` and `reserve` do; `KeyReusedError` for the key of the hold itself.
        """
        used = {} if actual is None else check_amounts(actual)
        if key is not None and key == check_hold(hold).id:
            raise KeyReusedError(hold.path, key)
        asked, ttl_ms = check_amounts(amounts, True), check_ttl(ttl)
        return self._take(check_hold(hold).path, asked, key, ttl_ms, (hold, used))

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

    def _take(
        self,
        path: str,
        asked: "dict[str, int | None]",
        key: str | None,
        ttl_ms: int | None,
        former: "tuple[Hold, dict[str, int]] | None" = None,
    ) -> Hold:
        """Hold amounts, or, without a `ttl_ms`, record them as spent.

        With a `former` hold and what was used of it, it is committed in the same step.
        """
        amounts: Any = asked
        if None in asked.values():
            amounts = {axis: asked[axis] for axis in asked if asked[axis] is not None}
        if path.__class__ is not str or path not in self._accounts:  # an account's was checked
            path = check_path(path)
        name = None if key is None else _name(path, key)
        with self._lock:
            now = self._now()
            before = None if former is None else self._find(former[0])
            hold = None if name is None else self._known(name, path, amounts, ttl_ms is None)
            is_new = hold is None
            if hold is None:
                buckets = self._buckets(path, now)
                for axis in asked:
                    if axis not in buckets and axis not in self._axes:
                        self._check_axis(axis, ttl_ms is None)
                hold = Hold(path, key or self._new_id(), amounts, RELEASED, None, None, buckets)
            if before is not None and former is not None:
                was = before.state, before.actual
                self._commit(before, former[1])
            if is_new and ttl_ms is None:
                self._settle(hold, COMMITTED, amounts)
                if name is not None:
                    self._forget_settled(now)
                    self._settled[name] = hold
            elif is_new:
                try:
                    self._admit(hold.buckets or {}, asked)
                    self._keep(name or hold.id, hold, now, now + (ttl_ms or 0))
                except LedgerError:
                    if before is not None and was[0] != COMMITTED:
                        self._reopen(before, *was)
                    raise
            return hold

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _new_id(self) -> str:
        self._taken = taken = self._taken + 1
        return f"#{taken}"

    def _buckets(self, path: str, now: int) -> "Buckets":
        """Return the buckets of now, by axis, on which a path draws.

        Raises `UnknownAccountError` if there are none.
        """
        raise NotImplementedError

    def _check_axis(self, axis: str, counted: bool) -> None:
        """Raise if an axis may not be used that no bucket counts, or not but by what `counted`."""
        check_axis(axis)

    def _admit(self, buckets: "Buckets", asked: "dict[str, int | None]") -> None:
        """Raise `BudgetExceededError` if a limit has too little left.

        Every cap refuses an amount of `None`, which has no bound.
        """
        refused = []
        for axis in asked:
            amount = asked[axis]
            for bucket in buckets.get(axis, ()):
                cap = bucket.cap
                if cap is None:
                    continue
                spent, held = bucket.totals() if bucket.earlier else (bucket.spent, bucket.held)
                if amount is None or spent + held + amount > cap:
                    refused.append((bucket.end, bucket.place, amount, cap, spent, held))
        if refused:
            raise refusal(refused, self._now())

    def _keep(self, name: str, hold: Hold, now: int, expires: int) -> None:
        """Hold the amounts of a hold that was admitted; `LedgerFullError` if there are too many."""
        if name[0] != "#":
            self._forget_settled(now)
        if len(self._live) >= self._sweep_at:  # twice as many as there were: some may be over
            self._expire(now)
            self._sweep_at = min(self._max_holds, max(_FEW_HOLDS, 2 * len(self._live)))
            if len(self._live) >= self._max_holds:
                text = f"the ledger has its {self._max_holds} live holds: raise max_holds"
                raise LedgerFullError(text)
        hold.state, hold.expires_ms = HELD, expires
        self._soonest = min(self._soonest, expires)
        self._live[name] = hold
        buckets = hold.buckets or {}
        for axis in hold.amounts:
            for bucket in buckets.get(axis, ()):
                bucket.held += hold.amounts[axis]

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

    def _commit(self, hold: Hold, used: "dict[str, int]") -> None:
        if hold.state != COMMITTED:
            for axis in used:
                if axis not in self._axes:
                    self._check_axis(axis, True)
            self._settle(hold, COMMITTED, dict(hold.amounts, **used))

    def _settle(self, hold: Hold, state: str, used: "dict[str, int]") -> None:
        was = hold.state
        self._count(hold, used, 1)
        hold.state = state
        hold.actual = used
        if ROOMS:
            wake(self, hold)
        if was != HELD:
            return
        if hold.id[0] == "#":
            self._live.pop(hold.id, None)
        else:
            name = _name(hold.path, hold.id)
            self._settled[name] = self._live.pop(name)

    def _reopen(self, hold: Hold, state: str, actual: "dict[str, int] | None") -> None:
        """Take back the commit of a moment ago."""
        used = hold.actual or {}
        hold.state, hold.actual = state, actual
        self._count(hold, used, -1)
        if state == HELD:
            name = hold.id if hold.id[0] == "#" else _name(hold.path, hold.id)
            for settled in (self._settled, self._former):
                settled.pop(name, None)
            self._soonest = min(self._soonest, hold.expires_ms or 0)
            self._live[name] = hold

    def _count(self, hold: Hold, used: "dict[str, int]", sign: int) -> None:
        """Replace a hold, as its state counts it, by what was used; or, with -1, the reverse."""
        buckets = hold.buckets or {}
        was, amounts = hold.state, hold.amounts
        for axis in buckets:
            amount, spent = sign * amounts.get(axis, 0), sign * used.get(axis, 0)
            for bucket in buckets[axis]:
                if was == HELD:
                    bucket.held -= amount
                elif was == EXPIRED:
                    bucket.spent -= amount
                bucket.spent += spent

    def _forget_settled(self, now: int) -> None:
        """Forget what was settled too long ago: two dicts in turn are cheaper than many dates."""
        if now - self._turned >= self._keep_ms:
            self._former, self._settled = self._settled, {}
            self._turned = now


def _name(path: str, key: str) -> str:
    """Return the name of a hold: keys are of one root."""
    return root(path) + "/" + check_key(key)

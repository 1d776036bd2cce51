"""Grant holds up to a cap while a ledger is out of reach, and settle them later."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

from budget_core.checks import NoLock
from budget_core.errors import refuse
from budget_core.ledger import memory
from budget_core.ledger._types import AnyLedger, LedgerProtocol
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.limit import MAX_LIMITS, Limit, check_amounts, check_key, check_path
from budget_core.ledger.outbox import new_key
from budget_core.ledger.records import TTL, Hold, check_hold, check_ttl
from budget_core.ledger.upstream import Upstream
from budget_core.ledger.waiting import reserve_waiting
from budget_core.monotonic import MONOTONIC, MonotonicClock
from budget_cpython.forked import begin_again_in_children
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.locks import TaskGate, ThreadGate
from budget_cpython.ledger.passthrough import AsyncPassthrough, BlockingLedger
from budget_cpython.wall_clock import WALL

OFFLINE = (LedgerUnavailableError, LedgerFullError)
_ALL = "offline"


class AsyncOfflineCapLedger(AsyncPassthrough):
    """A ledger that grants up to `cap` by itself while the one upstream is out of reach, or full.

    While that one is damaged (`LedgerCorruptError`) nothing is granted.

    The cap is for all paths of this process together; an axis that it does not name is not limited.
    It is whole again once all grants are settled upstream: there each becomes a hold that is
    committed, or is recorded past the limit if too little is left. So an outage overshoots a limit
    by at most the cap of each process. A grant counts in the window in which it is settled.

    Holds taken before are committed and released later, and charges recorded, in order and once
    each. Up to `most` grants and entries wait, in memory (`unsettled`): a process that ends before
    they are settled loses them. A forked process has the whole cap, and leaves to its parent what
    that granted and owes. The ledger is asked again as `Upstream` says.
    """

    LOCK: Any = NoLock
    GATE: Any = TaskGate

    def __init__(
        self,
        ledger: AnyLedger,
        cap: dict[str, Any],
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        most: int = 10_000,
    ) -> None:
        self.upstream = Upstream(ledger, monotonic, most)
        self._cap = check_amounts(cap)
        if not cap:
            refuse("cap", "amounts of at least one axis", cap)
        self._clock = clock
        self._most = most
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have the whole cap and owe nothing, in a process that was forked."""
        self.upstream.begin_again()
        self._grants: dict[str, _Grant] = {}
        self._local = _OneAccount(self._clock, self.LOCK())  # admits what is granted
        self._gate = self.GATE()
        self._fill()

    @property
    def unsettled(self) -> int:
        """How many grants are in flight, and entries in the outbox."""
        return len(self._grants) + len(self.upstream.outbox.entries)

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts upstream, or of the cap while that is out of reach.

        Raises as `Ledger.reserve` does; once the cap is used up, why the ledger is out of reach.
        """
        if wait:
            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        asked = check_amounts(amounts, True)
        check_path(path)
        check_ttl(ttl)
        name = new_key() if key is None else check_key(key)
        if key is not None and self._granted(Hold(path, name)):
            return self._local.reserve(path, asked, name, ttl)
        try:
            return cast(Hold, await self._do("reserve", path, asked, name, ttl))
        except OFFLINE as error:
            if LedgerCorruptError in (type(error), type(getattr(error, "cause", None))):
                raise
            async with self._gate:
                return self._grant(Hold(path, name, asked), ttl, error, key is None)

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent without asking, now or later."""
        used = check_amounts(amounts)
        name = new_key() if key is None else check_key(key)
        try:
            return cast(Hold, await self._settle("charge", check_path(path), used, name))
        except OFFLINE:
            async with self._gate:
                self.upstream.outbox.charge(path, used, name)
            return Hold(path, name, used, Hold.COMMITTED, None, used)

    async def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Record what a call used in the place of its hold, now or later."""
        used = None if actual is None else check_amounts(actual)
        if self._granted(hold):
            async with self._gate:
                return self._commit_grant(hold, used)
        try:
            return cast(Hold, await self._settle("commit", hold, used))
        except OFFLINE:
            async with self._gate:
                self.upstream.outbox.commit(hold, used)
            spent = {**hold.amounts, **(used or {})}
            return Hold(hold.path, hold.id, hold.amounts, Hold.COMMITTED, hold.expires_ms, spent)

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made, now or later."""
        if self._granted(hold):
            async with self._gate:
                return self._release_grant(hold)
        try:
            return cast(Hold, await self._settle("release", hold))
        except OFFLINE:
            async with self._gate:
                self.upstream.outbox.release(hold)
            return Hold(hold.path, hold.id, hold.amounts, Hold.RELEASED, hold.expires_ms, {})

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now; offline it stays as it is.

        One that expires meanwhile counts as spent, until its commit says what was used.
        """
        if self._granted(hold):
            return self._local.extend(hold, ttl)
        try:
            return cast(Hold, await self._do("extend", hold, ttl))
        except OFFLINE:
            return hold

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        if self._granted(Hold(path, id)):
            return self._local.hold(path, id)
        return cast(Hold, await self._do("hold", path, id))

    async def expire(self) -> int:
        """Count expired holds as spent; settle what can be settled."""
        count = self._local.expire()
        try:
            return count + cast(int, await self._settle("expire"))
        except OFFLINE:
            return count

    async def close(self) -> None:
        """Settle what is owed and close the ledger upstream; calls in flight count in full.

        Raises why it is out of reach, with nothing lost or closed: closing again tries again.
        """
        async with self._gate:
            self.upstream.retry_now()
            await self._deliver()  # so that there is room for what is in flight
            for grant in list(self._grants.values()):
                self._commit_grant(grant.hold, None)
            await self.upstream.close()

    async def _do(self, operation: str, *arguments: Any) -> Any:
        if self._used or self.upstream.outbox.entries:
            async with self._gate:
                try:
                    await self._deliver()
                except LedgerFullError:  # what frees room has to get through
                    pass
        return await self.upstream.ask(operation, *arguments)

    async def _deliver(self) -> None:
        """Deliver what the ledger is owed; the cap is whole again once that is all."""
        self._local.expire()
        for grant in list(self._grants.values()):
            room = len(self.upstream.outbox.entries) < self._most
            if grant.hold.state == Hold.EXPIRED and room:
                self._redeem(grant, grant.hold.amounts)
        await self.upstream.deliver()
        if not self._grants and self._used:
            self._fill()

    def _fill(self) -> None:
        self._local.set_limits(_ALL, [])
        self._local.set_limits(_ALL, [Limit(axis, self._cap[axis]) for axis in self._cap])
        self._used = False  # whether the cap may not be whole

    def _granted(self, hold: Hold) -> bool:
        """Tell whether a hold was granted here."""
        check_hold(hold)
        try:
            return hold.id[:1] != "#" and self._local.hold(hold.path, hold.id) is not None
        except UnknownHoldError:
            return False

    def _grant(self, asked: Hold, ttl: float, error: Exception, own_key: bool) -> Hold:
        """Grant a hold, or raise `error`; with its `own_key` the caller cannot ask for it again."""
        if self.unsettled >= self._most:
            raise error
        self._used = True
        in_doubt = getattr(error, "applied", False) is None
        try:
            hold = self._local.reserve(asked.path, asked.amounts, asked.id, ttl)
        except BudgetExceededError as short:
            if in_doubt and own_key:
                self._undo(asked, ttl)
            text = f"{error}; of the cap, {short.left} {short.axis} are left, not {short.asked}"
            raise LedgerUnavailableError(text, error) from error
        self._grants[hold.id] = _Grant(hold, ttl, in_doubt)
        return hold

    def _commit_grant(self, hold: Hold, actual: dict[str, int] | None) -> Hold:
        """Queue what a call used; of an expired grant, what is more than was granted."""
        was = self._local.hold(hold.path, hold.id).state
        found = self._local.commit(hold, actual)
        grant = self._grants.get(hold.id)
        used = found.actual or {}
        if grant is not None:
            self._redeem(grant, used)
        elif was != Hold.COMMITTED:
            for axis in used:
                beyond = used[axis]
                if was == Hold.EXPIRED:
                    beyond -= found.amounts.get(axis, 0)
                if beyond > 0:
                    self.upstream.outbox.charge(hold.path, {axis: beyond})
        return found

    def _release_grant(self, hold: Hold) -> Hold:
        """Forget a grant whose call was never made, upstream too if it may be known there."""
        found = self._local.release(hold)
        grant = self._grants.get(hold.id)
        if grant is not None and found.state == Hold.RELEASED:
            if grant.in_doubt:
                self._undo(hold, grant.ttl)
            del self._grants[hold.id]
        return found

    def _redeem(self, grant: "_Grant", used: dict[str, int]) -> None:
        hold = grant.hold
        axes = list(hold.amounts) + [axis for axis in used if axis not in hold.amounts]
        actual = {axis: used[axis] for axis in axes[:MAX_LIMITS]}
        self.upstream.outbox.redeem(hold, grant.ttl, actual)
        del self._grants[hold.id]
        for axis in axes[MAX_LIMITS:]:
            self.upstream.outbox.charge(hold.path, {axis: used[axis]})

    def _undo(self, hold: Hold, ttl: float) -> None:
        self.upstream.outbox.redeem(hold, ttl, dict.fromkeys(hold.amounts, 0))


class _ThreadsCap(AsyncOfflineCapLedger):
    LOCK = Lock
    GATE = ThreadGate


class OfflineCapLedger(BlockingLedger):
    """The same for threads; `ledger` is one that blocks."""

    def __init__(
        self,
        ledger: LedgerProtocol,
        cap: dict[str, Any],
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        most: int = 10_000,
    ) -> None:
        self._capped = _ThreadsCap(ledger, cap, clock, monotonic, most=most)
        super().__init__(self._capped)

    @property
    def unsettled(self) -> int:
        """How many grants are in flight, and entries in the outbox."""
        return self._capped.unsettled


@dataclass
class _Grant:
    hold: Hold
    ttl: float
    in_doubt: bool  # the ledger upstream may hold it too


class _OneAccount(memory.Ledger):
    """A ledger in which all paths draw on one account, and any axis is admitted."""

    _paths = staticmethod(lambda path: [_ALL])

    def _check_uncounted(self, axis: str, charged: bool) -> None:
        self._reader.check_axis(axis)

"""Grant holds while a ledger is out of reach, and owe them to it."""

from collections.abc import Callable
from typing import Any

from budget_core.errors import refuse
from budget_core.ledger import memory
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.limit import MAX_LIMITS, Limit, check_amounts
from budget_core.ledger.records import Hold
from budget_core.ledger.upstream import Upstream

_ALL = "outage"


class Grants:
    """What a process grants by itself: `local` admits it up to `cap`, and remembers it.

    At most `most` grants and entries of the queue wait to be settled. `used` says whether the cap
    may have to be made whole.
    """

    def __init__(
        self,
        upstream: Upstream,
        cap: dict[str, int],
        clock: Callable[[], float],
        most: int,
        lock: Any,
    ) -> None:
        self._upstream = upstream
        self._cap = check_amounts(cap)
        if not cap:
            refuse("cap", "amounts of at least one axis", cap)
        self._clock = clock
        self._most = most
        self.begin_again(lock)

    def begin_again(self, lock: Any) -> None:
        """Have the whole cap, and no grants."""
        self._grants: dict[str, _Grant] = {}
        self.local = _OneAccount(self._clock, lock)
        self._fill()

    @property
    def unsettled(self) -> int:
        """How many grants are in flight, and entries in the queue."""
        return len(self._grants) + len(self._upstream.outbox.entries)

    async def settle(self) -> None:
        """Tell the ledger what it is owed; the cap is whole again once that is all."""
        self.local.expire()
        for grant in list(self._grants.values()):
            if grant.hold.state == Hold.EXPIRED:
                self._redeem(grant, grant.hold.amounts)
        await self._upstream.deliver()
        if not self._grants and self.used:
            self._fill()

    def known(self, hold: Hold) -> bool:
        """Whether a hold was granted here."""
        try:
            return hold.id[:1] != "#" and self.local.hold(hold.path, hold.id) is not None
        except UnknownHoldError:
            return False

    def take(self, asked: Hold, ttl: float, trouble: Exception, alone: bool) -> Hold:
        """Grant a hold, or raise the trouble; if `alone`, nobody else asks again with its key."""
        if self.unsettled >= self._most:
            raise trouble
        self.used = True
        in_doubt = getattr(trouble, "applied", False) is None
        try:
            hold = self.local.reserve(asked.path, asked.amounts, asked.id, ttl)
        except BudgetExceededError as error:
            if in_doubt and alone:
                self._undo(asked, ttl)
            text = f"{trouble}; of the cap, {error.left} {error.axis} are left, not {error.asked}"
            raise LedgerUnavailableError(text, trouble) from trouble
        self._grants[hold.id] = _Grant(hold, ttl, in_doubt)
        return hold

    def commit(self, hold: Hold, actual: dict[str, int] | None) -> Hold:
        """Queue what a call used; of one whose grant had expired, what is more than that."""
        was = self.local.hold(hold.path, hold.id).state
        found = self.local.commit(hold, actual)
        grant = self._grants.get(hold.id)
        used = found.actual or {}
        if grant is not None:
            self._redeem(grant, used)
        elif was != Hold.COMMITTED:
            more = dict(used)
            if was == Hold.EXPIRED:
                more = {axis: used[axis] - found.amounts.get(axis, 0) for axis in used}
            more = {axis: more[axis] for axis in more if more[axis] > 0}
            for axis in more:
                self._upstream.outbox.charge(hold.path, {axis: more[axis]})
        return found

    def release(self, hold: Hold) -> Hold:
        """Forget a grant whose call was never made, upstream too if it may be known there."""
        found = self.local.release(hold)
        grant = self._grants.get(hold.id)
        if grant is not None and found.state == Hold.RELEASED:
            if grant.in_doubt:
                self._undo(hold, grant.ttl)
            del self._grants[hold.id]
        return found

    def _redeem(self, grant: "_Grant", used: dict[str, int]) -> None:
        hold = grant.hold
        axes = list(hold.amounts) + [axis for axis in used if axis not in hold.amounts]
        told = {axis: used[axis] for axis in axes[:MAX_LIMITS]}
        self._upstream.outbox.redeem(hold, grant.ttl, told)
        del self._grants[hold.id]
        for axis in axes[MAX_LIMITS:]:
            self._upstream.outbox.charge(hold.path, {axis: used[axis]})

    def commit_all(self) -> None:
        """Queue what is in flight, as used in full."""
        for grant in list(self._grants.values()):
            self.commit(grant.hold, None)

    def _undo(self, hold: Hold, ttl: float) -> None:
        zeros = dict.fromkeys(hold.amounts, 0)
        self._upstream.outbox.redeem(hold, ttl, zeros)

    def _fill(self) -> None:
        self.local.set_limits(_ALL, [])
        self.local.set_limits(_ALL, [Limit(axis, self._cap[axis]) for axis in self._cap])
        self.used = False


class _Grant:
    def __init__(self, hold: Hold, ttl: float, in_doubt: bool) -> None:
        self.hold = hold
        self.ttl = ttl
        self.in_doubt = in_doubt


class _OneAccount(memory.Ledger):
    """A ledger in which all paths draw on one account."""

    def _nearest(self, path: str) -> Any:
        return self._accounts[_ALL]

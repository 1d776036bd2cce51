"""A lease that is filled beforehand: what a process grants by itself, and what it owes for that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from budget_core.ledger.checks import MAX_LIMITS
from budget_core.ledger.errors import UnknownHoldError
from budget_core.ledger.hold import Hold, check_hold
from budget_core.ledger.leased_block import LeasedHolds, late_use
from budget_core.ledger.outbox import Outbox, add_amounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock
    from budget_core.ledger.memory_holds import Buckets

_ALL = "all"


class PrefilledLease(LeasedHolds):
    """Holds within a cap that was never drawn from the ledger upstream, all paths together.

    An axis without a cap is not limited. The `outbox` gets what is owed for each hold: it becomes a
    hold upstream that is committed, or is recorded past the limit. `refill` makes the cap whole
    once all of it is settled.
    """

    def __init__(
        self, cap: dict[str, int], clock: Callable[[], float], lock: "Lock", outbox: Outbox
    ) -> None:
        super().__init__(clock, lock)
        self._cap = cap
        self._outbox = outbox
        self._grants: dict[tuple[str, str], _Grant] = {}  # by path and id
        self._granted: dict[str, dict[str, int]] = {}
        self._fill()

    @property
    def unsettled(self) -> int:
        """The number of holds that are not settled yet."""
        return len(self._grants)

    def has(self, hold: Hold) -> bool:
        """Tell whether a hold was granted here."""
        check_hold(hold)
        try:
            return hold.id[:1] != "#" and self.hold(hold.path, hold.id) is not None
        except UnknownHoldError:
            return False

    def grant(self, asked: Hold, ttl: float, in_doubt: bool) -> Hold:
        """Grant a hold, which the ledger upstream may hold too if that is `in_doubt`.

        Raises `BudgetExceededError` where too little of the cap is left.
        """
        self.is_whole = False
        hold = self.reserve(asked.path, asked.amounts, asked.id, ttl)
        self._grants[hold.path, hold.id] = _Grant(hold, ttl, in_doubt)
        with self._lock:
            add_amounts(self._granted.setdefault(hold.path, {}), hold.amounts)
        return hold

    def take_granted(self) -> dict[str, dict[str, int]]:
        """Return what was granted by path since it was asked last."""
        with self._lock:
            found, self._granted = self._granted, {}
        return found

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Owe what a call used; of a hold that is settled already, what is more than that."""
        was = self.hold(hold.path, hold.id).state
        found = super().commit(hold, actual)
        grant = self._grants.get((hold.path, hold.id))
        used = found.actual or {}
        if grant is not None:
            self._redeem(grant, used)
        elif was != Hold.COMMITTED:
            for axis in used:
                beyond = late_use(found, was, axis)
                if beyond > 0:
                    self._outbox.charge(hold.path, {axis: beyond})
        return found

    def release(self, hold: Hold) -> Hold:
        """Forget a hold whose call was never made, upstream too if it may be known there."""
        found = super().release(hold)
        grant = self._grants.get((hold.path, hold.id))
        if grant is not None and found.state == Hold.RELEASED:
            if grant.in_doubt:
                self.undo(hold, grant.ttl)
            del self._grants[hold.path, hold.id]
        return found

    def undo(self, hold: Hold, ttl: float) -> None:
        """Have a reservation upstream undone, if there is one."""
        self._outbox.redeem(hold, ttl, dict.fromkeys(hold.amounts, 0))

    def settle_expired(self, room: int) -> None:
        """Owe holds that have expired in full, up to so many."""
        self.expire()
        over = [one for one in self._grants.values() if one.hold.state == Hold.EXPIRED]
        for grant in over[: max(0, room)]:
            self._redeem(grant, grant.hold.amounts)

    def settle_all(self) -> None:
        """Owe all holds in full: calls in flight are not waited for."""
        for grant in list(self._grants.values()):
            self.commit(grant.hold)

    def refill(self) -> None:
        """Make the cap whole again, once nothing is in flight and all was delivered."""
        if not (self._grants or self.is_whole):
            self._fill()

    def _fill(self) -> None:
        self.set_caps(_ALL, {})
        self.set_caps(_ALL, self._cap)
        self.is_whole = True

    def _redeem(self, grant: "_Grant", used: dict[str, int]) -> None:
        hold = grant.hold
        axes = list(hold.amounts) + [axis for axis in used if axis not in hold.amounts]
        actual = {axis: used[axis] for axis in axes[:MAX_LIMITS]}
        self._outbox.redeem(hold, grant.ttl, actual)
        del self._grants[hold.path, hold.id]
        for axis in axes[MAX_LIMITS:]:
            self._outbox.charge(hold.path, {axis: used[axis]})

    def _buckets(self, path: str, now: int) -> "Buckets":
        return super()._buckets(_ALL, now)

    def _check_axis(self, axis: str, counted: bool) -> None:
        super()._check_axis(axis, True)


@dataclass
class _Grant:
    hold: Hold
    ttl: float
    in_doubt: bool  # the ledger upstream may hold it too

"""The part of a path's budget that one process has leased, and its use of that."""

from budget_core.ledger.bucket import EXPIRED, FAR, Bucket
from budget_core.ledger.checks import MOST, check_axis
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.memory_holds import MemoryHolds
from budget_core.ledger.outbox import add_amounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from budget_core._types import Lock
    from budget_core.ledger.hold import Balance, Hold
    from budget_core.ledger.memory_holds import Buckets
    from budget_core.ledger.outbox import Outbox

    Former = tuple[Hold, dict[str, int] | None]  # a hold to commit, and what was used


class PathLease:
    """What one process may use of one path's budget; `local` is the ledger that admits within it.

    Nothing of an axis is admitted before something of it was leased. `block` is what is leased now,
    `ended` are former blocks that are not settled yet. Times are milliseconds of the monotonic
    clock: `until` is when the nearest window ends, `extend_at` when the leases are due. `limited`
    are the balances of limits with a cap, as they were then. `is_urgent` is whether the ledger has
    to know of a settlement at once.
    """

    def __init__(
        self, path: str, axes: "Sequence[str]", clock: "Callable[[], float]", lock: "Lock | None"
    ) -> None:
        self.path = path
        self.local = LeasedHolds(clock, lock)
        self.used_at = 0
        self.until = FAR
        self.extend_at = FAR
        self.owed: list[dict[str, int]] = []
        self.ended: list[LeasedBlock] = []
        self.limited: list[Balance] = []
        self.is_urgent = False
        self.block = LeasedBlock()
        self._axes = axes

    def claim(
        self,
        amounts: "dict[str, int]",
        key: str | None,
        ttl: float,
        now: int,
        former: "Former | None" = None,
    ) -> "Hold | None":
        """Hold amounts of what is leased, and commit a former hold; `None` if it is too little."""
        self.used_at = now
        try:
            if former is None:
                return self.local.reserve(self.path, amounts, key, ttl)
            known, was = self._known(former[0])
            taken = self.local.renew(known, former[1], amounts, key, ttl)
        except (BudgetExceededError, UnknownAccountError):  # the latter if nothing is leased
            return None
        self._note_commit(known, was)
        return taken

    def commit(self, hold: "Hold", actual: "dict[str, int] | None") -> "Hold":
        """Settle a hold, and return it."""
        known, was = self._known(hold)
        found = self.local.commit(known, actual)
        self._note_commit(found, was)
        return found

    def effect(self, former: "Former") -> "dict[str, tuple[int, int]]":
        """Return `(spent, freed)` by axis: what a commit would add to and free of the block."""
        known, was = self._known(former[0])
        used = dict(known.amounts)
        used.update(former[1] or {})
        found = {}
        for axis in used if was != known.COMMITTED else ():
            bucket = self.block.buckets.get(axis)
            if bucket is not None and bucket in (known.buckets or {}).get(axis, ()):
                counted = 0 if was == known.RELEASED else known.amounts.get(axis, 0)
                spent = used[axis] - (counted if was == EXPIRED else 0)
                found[axis] = (spent, counted - used[axis])
        return found

    def _known(self, hold: "Hold") -> "tuple[Hold, str]":
        """Return the local ledger's own object for a hold, and its state."""
        known = hold if hold.id[:1] == "#" else self.local.hold(hold.path, hold.id)
        return known, known.state

    def _note_commit(self, found: "Hold", was: str) -> None:
        """Owe the ledger what a committed hold used."""
        if was == found.COMMITTED:
            return
        urgent = bool(self.ended)
        buckets, used, counted = found.buckets or {}, found.actual or {}, self.block.buckets
        for axis in used:
            bucket = buckets[axis][0] if axis in buckets else None
            if bucket is not None and bucket is counted.get(axis):
                urgent = urgent or bucket.spent > bucket.cap
            elif bucket is None or bucket not in [one.buckets.get(axis) for one in self.ended]:
                urgent = True
                beyond = late_use(found, was, axis)
                if beyond > 0:
                    self.owed.append({axis: beyond})
        self.is_urgent = self.is_urgent or urgent

    def wanted(
        self, amounts: "dict[str, int]", block: "dict[str, int]"
    ) -> "tuple[dict[str, int], dict[str, int]]":
        """Return the amounts to lease to have a `block` at hand, and what is lacking at least."""
        want, lack = {}, {}
        for axis in amounts:
            free = self.block.free(axis)
            if amounts[axis] > free:
                lack[axis] = amounts[axis] - free
            enough = max(amounts[axis], block.get(axis, 0))
            if enough > free or axis not in self.block.buckets:
                want[axis] = enough - free
        return want, lack

    def add(self, lease: "Hold", expires: int) -> None:
        """Count a new lease, a hold upstream."""
        self.block.leases.append(lease)
        self.block.expires = min(self.block.expires, expires)
        self._apply()

    def note(self, balances: "list[Balance]", now: int, asked: int) -> None:
        """Note when the nearest window ends, and which limits there are.

        `now` is the ledger's time, 0 if it does not know the date; it was `asked` for at a time of
        this clock that is no later.
        """
        self.limited = [one for one in balances if one.limit is not None]
        ends = [one.resets_at for one in balances if one.resets_at is not None]
        self.until = asked + (min(ends) * 1000 - now) if ends and now else FAR

    def maintain(self, outbox: "Outbox", now: int, idle_ms: int) -> None:
        """Queue what the ledger is owed: for calls and windows that ended, and if idle the rest."""
        self.is_urgent = False
        self.local.expire()
        block = self.block
        idle = block.leases and not block.is_live() and now - self.used_at >= idle_ms
        if idle or now >= self.until or now >= block.expires:
            self._end_block()
        while self.owed:
            outbox.charge(self.path, self.owed[-1])
            self.owed.pop()
        for block in list(self.ended):
            block.settle(outbox, self.path, not block.is_live())
            if not block.leases and not block.is_live():
                self.ended.remove(block)
        self.block.settle(outbox, self.path)
        if self.block.buckets:
            self._apply()

    def close(self, outbox: "Outbox") -> None:
        """Queue all that the ledger is owed; calls in flight count at what they hold."""
        self._end_block()
        for block in self.ended:
            block.settle(outbox, self.path, True, True)

    def due(self, now: int, idle_ms: int) -> int:
        """Return when `maintain` is due."""
        idle_at = FAR
        if self.ended or self.block.is_live():
            idle_at = now + idle_ms
        elif self.block.leases:
            idle_at = self.used_at + idle_ms
        extend_at = self.extend_at if self.block.leases else FAR
        return min(idle_at, extend_at, self.until, self.block.expires)

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten."""
        return not (self.ended or self.owed or self.block.leases or self.block.is_live())

    def _end_block(self) -> None:
        """Admit nothing more on what is leased, which stays for the calls that claimed it."""
        if self.block.buckets:
            self.ended.append(self.block)
        self.local.set_caps(self.path, {})
        self.block = LeasedBlock()
        self.until = self.extend_at = FAR

    def _apply(self) -> None:
        """Have the local ledger admit what is leased."""
        block, axes = self.block, list(self._axes)
        for lease in block.leases:
            axes += [axis for axis in lease.amounts if axis not in axes]
        axes += [axis for axis in block.settled if axis not in axes]
        buckets = self.local.set_caps(self.path, {axis: block.cap(axis) for axis in axes})
        block.buckets = {axis: buckets[axis][0] for axis in buckets}


class LeasedHolds(MemoryHolds):
    """The holds that one process admits by itself, within caps by axis and on no other axis."""

    def set_caps(self, path: str, caps: "dict[str, int]") -> "Buckets":
        """Admit this much on a path, by axis, and return the buckets that count it.

        What an axis has counted stays counted; one that is left out begins anew when it returns.
        """
        found: Buckets = {}
        with self._lock:
            before = self._accounts.get(path, {})
            for axis in caps:
                found[axis] = before.get(axis) or (Bucket((path, axis, "run"), 0, FAR),)
                found[axis][0].cap = caps[axis]
            self._accounts[path] = found
        return found

    def _buckets(self, path: str, now: int) -> "Buckets":
        found: Buckets | None = self._accounts.get(path)
        if not found:
            raise UnknownAccountError(path)
        return found

    def _check_axis(self, axis: str, counted: bool) -> None:
        check_axis(axis)
        if not counted:
            raise UnknownAccountError(axis)


def late_use(hold: "Hold", was: str, axis: str) -> int:
    """Return how much more a hold used than was counted for it, as it `was` before its commit."""
    counted = hold.amounts.get(axis, 0) if was == EXPIRED else 0
    return (hold.actual or {}).get(axis, 0) - counted


class LeasedBlock:
    """The leases drawn within the same windows, and what was used of them.

    What may be used is what was `settled` upstream and what the `leases`, holds upstream, still
    cover. They expire at `expires`, if not extended.
    """

    __slots__ = ("buckets", "expires", "leases", "settled")

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.leases: list[Hold] = []
        self.settled: dict[str, int] = {}
        self.expires = FAR

    def cap(self, axis: str) -> int:
        """Return how much of an axis may be used, all in all."""
        return self.settled.get(axis, 0) + self._covered(axis)

    def free(self, axis: str) -> int:
        """Return how much of an axis may still be claimed; below 0 if commits used more."""
        bucket = self.buckets.get(axis)
        return 0 if bucket is None else self.cap(axis) - bucket.spent - bucket.held

    def is_live(self) -> bool:
        """Whether calls are in flight."""
        return any(bucket.held for bucket in self.buckets.values())

    def settle(
        self, outbox: "Outbox", path: str, all: bool = False, in_flight: bool = False
    ) -> None:
        """Queue the commits of leases that are used up, or of `all`, and charge what is beyond.

        With `in_flight`, what is held here counts as used.
        """
        for lease in list(self.leases):
            used = {
                axis: min(lease.amounts[axis], self.unsettled(axis, in_flight))
                for axis in lease.amounts
            }
            if all or used == lease.amounts:
                outbox.commit(lease, used)
                self.leases.remove(lease)
                add_amounts(self.settled, used)
        for axis in self.buckets:
            while self.unsettled(axis, in_flight) > self._covered(axis):
                beyond = min(MOST, self.unsettled(axis, in_flight) - self._covered(axis))
                outbox.charge(path, {axis: beyond})
                add_amounts(self.settled, {axis: beyond})

    def unsettled(self, axis: str, in_flight: bool = False) -> int:
        """Return how much was used that the ledger upstream still has as held."""
        bucket = self.buckets.get(axis)
        used = 0 if bucket is None else bucket.spent + (bucket.held if in_flight else 0)
        return max(0, used - self.settled.get(axis, 0))

    def _covered(self, axis: str) -> int:
        return sum(lease.amounts.get(axis, 0) for lease in self.leases)

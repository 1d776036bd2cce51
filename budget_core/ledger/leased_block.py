"""Count what one process has drawn of a path's budget, and what it used of that."""

from budget_core.ledger.bucket import EXPIRED
from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.limit import MOST, Limit, check_axis
from budget_core.ledger.memory import Ledger
from budget_core.ledger.outbox import sum_up
from budget_core.ledger.window import FAR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.bucket import Cell
    from budget_core.ledger.outbox import Upstream
    from budget_core.ledger.records import Balance, Hold
    from budget_core.ledger.window import Window


class Share:
    """What one process may use of one path's budget; `local` admits within it.

    Until something is drawn, and of an axis of which nothing was, nothing is admitted.

    Times are milliseconds of the monotonic clock. `until` is when the nearest window ends,
    `extend_at` when the leases are to be extended.
    """

    def __init__(
        self, path: str, axes: "Sequence[str]", clock: "Callable[[], float]", lock: "Lock | None"
    ) -> None:
        self.path = path
        self.local = _Leased(clock, lock)
        self.used_at = 0
        self.until = FAR
        self.extend_at = FAR
        self.owed: list[dict[str, int]] = []
        self.over: list[Batch] = []
        self._axes = axes
        self.batch = Batch()

    def claim(
        self, amounts: "dict[str, int]", key: str | None, ttl: float, now: int
    ) -> "Hold | None":
        """Hold amounts of what is leased; `None` where that has too little left."""
        self.used_at = now
        try:
            return self.local.reserve(self.path, amounts, key, ttl)
        except (BudgetExceededError, UnknownAccountError):  # the latter where nothing is drawn
            return None

    def commit(self, hold: "Hold", actual: "dict[str, int] | None") -> "tuple[Hold, bool]":
        """Settle a hold; return it, and whether the ledger is to be told something at once."""
        known = hold if hold.id[:1] == "#" else self.local.hold(hold.path, hold.id)
        was = known.state
        if was == known.COMMITTED:
            return self.local.commit(known), False
        found = self.local.commit(known, actual)
        tell = bool(self.over)
        cells, used, counted = found.cells or {}, found.actual or {}, self.batch.cells
        for axis in used:
            if axis in cells and cells[axis][0] is counted.get(axis):
                cell = counted[axis]
                tell = tell or cell.spent > cell.cap
            elif not self._counts(found, axis):
                tell = True
                beyond = used[axis] - (found.amounts.get(axis, 0) if was == EXPIRED else 0)
                if beyond > 0:
                    self.owed.append({axis: beyond})
        return found, tell

    def wanted(
        self, amounts: "dict[str, int]", block: "dict[str, int]"
    ) -> "tuple[dict[str, int], dict[str, int]]":
        """Return what to draw so that a block is at hand, and what a claim lacks of its amounts."""
        want, lack = {}, {}
        for axis in amounts:
            free = self.batch.free(axis)
            if amounts[axis] > free:
                lack[axis] = amounts[axis] - free
            enough = max(amounts[axis], block.get(axis, 0))
            if enough > free or axis not in self.batch.cells:
                want[axis] = enough - free
        return want, lack

    def add(self, hold: "Hold", expires: int) -> None:
        """Count a lease that was drawn."""
        self.batch.holds.append(hold)
        self.batch.expires = min(self.batch.expires, expires)
        self._apply()

    def see(self, balances: "list[Balance]", now: int, asked: int) -> None:
        """Note when the nearest window ends: `asked` is by this clock no later than `now` is there.

        A ledger that does not know the date says 0.
        """
        ends = [one.resets_at for one in balances if one.resets_at is not None]
        self.until = asked + (min(ends) * 1000 - now) if ends and now else FAR

    def tend(self, upstream: "Upstream", now: int, idle_ms: int) -> None:
        """Queue what the ledger is owed: of calls that ended, of windows that did, and if idle."""
        self.local.expire()
        batch = self.batch
        idle = batch.holds and not batch.is_live() and now - self.used_at >= idle_ms
        if idle or now >= self.until or now >= batch.expires:
            self._turn()
        while self.owed:
            upstream.charge(self.path, self.owed[-1])
            self.owed.pop()
        for batch in list(self.over):
            batch.pass_up(upstream, self.path, not batch.is_live())
            if not batch.holds and not batch.is_live():
                self.over.remove(batch)
        overrun = self.batch.is_overrun()
        self.batch.pass_up(upstream, self.path)
        if overrun:
            self._apply()

    def give_back(self, upstream: "Upstream") -> None:
        """Queue all that the ledger is owed; calls in flight count at what they hold."""
        self._turn()
        for batch in self.over:
            batch.pass_up(upstream, self.path, True, True)

    def due(self, now: int, idle_ms: int) -> int:
        """Return when it is to be tended again."""
        idle_at = FAR
        if self.over or self.batch.is_live():
            idle_at = now + idle_ms
        elif self.batch.holds:
            idle_at = self.used_at + idle_ms
        extend_at = self.extend_at if self.batch.holds else FAR
        return min(idle_at, extend_at, self.until, self.batch.expires)

    @property
    def is_idle(self) -> bool:
        """Whether it may be forgotten."""
        return not (self.over or self.owed or self.batch.holds or self.batch.is_live())

    def _turn(self) -> None:
        """Admit nothing more on what is leased, which stays for the calls it was claimed for."""
        if self.batch.holds or self.batch.is_live() or self.batch.is_owing():
            self.over.append(self.batch)
        self.local.set_limits(self.path, [])
        self.batch = Batch()
        self.until = self.extend_at = FAR

    def _apply(self) -> None:
        axes = list(self._axes)
        for hold in self.batch.holds:
            axes += [axis for axis in hold.amounts if axis not in axes]
        axes += [axis for axis in self.batch.passed if axis not in axes]
        self.local.set_limits(self.path, [Limit(axis, self.batch.cap(axis)) for axis in axes])
        cells = self.local.charge(self.path, {}).cells or {}
        self.batch.cells = {axis: cells[axis][0] for axis in cells}

    def _counts(self, hold: "Hold", axis: str) -> bool:
        """Whether an earlier batch that is not settled yet counts what a hold used of an axis."""
        cells = (hold.cells or {}).get(axis)
        if not cells:
            return False
        return any(one.cells.get(axis) is cells[0] for one in self.over)


class _Leased(Ledger):
    """A ledger that admits nothing on an axis that it does not count, and counts any number."""

    def _read_limits(self, limits: "Any") -> "list[tuple[str, Window, int | None]]":
        window = self._window("run")
        return [(one.axis, window, one.cap) for one in limits]

    def _uncounted(self, axis: str) -> "tuple[()]":
        raise UnknownAccountError(check_axis(axis))

    def _check_uncounted(self, amounts: "dict[str, int]", cells: "dict[str, Any]") -> None:
        for axis in amounts:
            if axis not in cells:
                check_axis(axis)


class Batch:
    """The leases drawn within the same windows, and what was used of them.

    What may be used is what was `passed` up as spent and what the `holds` upstream still cover.
    They expire at `expires`, if not extended.
    """

    __slots__ = ("cells", "expires", "holds", "passed")

    def __init__(self) -> None:
        self.cells: dict[str, Cell] = {}
        self.holds: list[Hold] = []
        self.passed: dict[str, int] = {}
        self.expires = FAR

    def cap(self, axis: str) -> int:
        """Return how much of an axis may be used, all in all."""
        return min(MOST, self.passed.get(axis, 0) + self._covered(axis))

    def free(self, axis: str) -> int:
        """Return how much of an axis may still be claimed; below 0 where commits used more."""
        cell = self.cells.get(axis)
        return 0 if cell is None else self.cap(axis) - cell.spent - cell.held

    def is_live(self) -> bool:
        """Whether calls are in flight."""
        return any(cell.held for cell in self.cells.values())

    def is_overrun(self) -> bool:
        """Whether more was used than is covered."""
        return any(cell.spent > cell.cap for cell in self.cells.values())

    def is_owing(self) -> bool:
        """Whether more was used than was passed up."""
        return any(self._unpassed(axis, False) for axis in self.cells)

    def pass_up(
        self, upstream: "Upstream", path: str, all: bool = False, live: bool = False
    ) -> None:
        """Queue the settlement of leases that are used up, or of `all`; and what is beyond them.

        If `live`, what is held here counts as used.
        """
        for hold in list(self.holds):
            used = {
                axis: min(hold.amounts[axis], self._unpassed(axis, live)) for axis in hold.amounts
            }
            if all or used == hold.amounts:
                upstream.commit(hold, used)
                self.holds.remove(hold)
                sum_up(self.passed, used)
        beyond = {axis: self._unpassed(axis, live) - self._covered(axis) for axis in self.cells}
        beyond = {axis: beyond[axis] for axis in beyond if beyond[axis] > 0}
        for axis in beyond:
            upstream.charge(path, {axis: beyond[axis]})
            sum_up(self.passed, {axis: beyond[axis]})

    def _unpassed(self, axis: str, live: bool) -> int:
        cell = self.cells.get(axis)
        used = 0 if cell is None else cell.spent + (cell.held if live else 0)
        return max(0, used - self.passed.get(axis, 0))

    def _covered(self, axis: str) -> int:
        return sum(hold.amounts.get(axis, 0) for hold in self.holds)

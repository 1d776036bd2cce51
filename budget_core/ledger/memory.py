"""Hold what calls may use, and record what they did, on accounts that many share."""

from budget_core.checks import check_count
from budget_core.ledger.accounts import Accounts
from budget_core.ledger.bucket import COMMITTED, EXPIRED, HELD, RELEASED
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    UnknownHoldError,
    refusal,
)
from budget_core.ledger.limit import chain, check_amounts, check_key, check_path, root
from budget_core.ledger.records import Balance, Hold, check_ttl
from budget_core.ledger.window import FAR, parse_window
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.bucket import Cell
    from budget_core.ledger.window import Window

FEW_HOLDS = 64
TTL = 300  # seconds: longer than most calls take


class Ledger(Accounts):
    """Budgets by path, such as `org/team/agent`: what is used below is used above as well.

    An account is a path that was given limits. A path without any draws on the accounts above it;
    where there are none, it is refused.

    `clock` returns Unix seconds, and 0 while it does not know the date. `lock` is any context
    manager; without one a ledger is for one thread. `windows` reads the names of windows, `axes`
    are the only ones that are counted, any if `None`. There are at most `max_accounts` accounts and
    `max_holds` live holds. A settled hold with a key is known for `keep` seconds at least, and up
    to twice as long.

    This one is in memory, and says what every other engine does. Source: the rules for holds and
    clocks in docs/ledger.md.
    """

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
        super().__init__(clock, lock, windows, axes, max_accounts)
        self._max_holds = check_count("max_holds", max_holds)
        self._keep_ms = check_count("keep", keep) * 1000
        self._taken = 0
        self._live: dict[str, Hold] = {}
        self._sweep_at = min(FEW_HOLDS, self._max_holds)
        self._soonest = FAR  # no live hold expires before
        self._settled: dict[str, Hold] = {}
        self._former: dict[str, Hold] = {}
        self._turned = 0

    def reserve(
        self, path: str, amounts: "dict[str, int]", key: str | None = None, ttl: float = TTL
    ) -> Hold:
        """Hold amounts, by axis, in one step on every limit of the path and of all above it.

        The hold is live for `ttl` seconds; not settled by then, it counts as spent. An axis without
        limits is not counted. With the `key` of an operation before it, which stands for one below
        the same root, nothing more is held: its hold is returned, whatever became of it.

        Raises `BudgetExceededError` where one limit has less left, of several the one that resets
        last; `UnknownAccountError`, `LedgerFullError`; `KeyReusedError` for the key of another path
        or other amounts; `ValueError` for what is no path, amount, key or ttl.
        """
        asked = check_amounts(amounts)
        ttl_ms = check_ttl(ttl)
        if path.__class__ is not str:
            path = check_path(path)
        place = None if key is None else _place(path, key)
        with self._lock:
            now = self._now()
            if place is not None:
                known = self._known(place, path, asked, False)
                if known is not None:
                    return known
            cells = self._open(path, now)
            tight = False
            for axis in asked:
                amount = asked[axis]
                for cell in cells.get(axis) or self._uncounted(axis):
                    if cell.spent + cell.held + amount > cell.cap or cell.earlier:
                        tight = True
            if tight:
                self._refuse(cells, asked)
            if key is None:
                key = self._new_id()
            hold = Hold(path, key, asked, HELD, now + ttl_ms, None, cells)
            try:
                self._keep(place or key, hold, now)
                for axis in asked:
                    for cell in cells.get(axis, ()):
                        cell.held += asked[axis]
            except LedgerError:
                raise
            except BaseException:  # an interrupt, wherever it came
                self._live.pop(place or key, None)
                self._recount(cells)
                raise
            return hold

    def charge(self, path: str, amounts: "dict[str, int]", key: str | None = None) -> Hold:
        """Record amounts as spent without asking, also past a limit, and return them, committed.

        With the `key` of a charge before it nothing more is recorded. Raises as `reserve` does, but
        for `BudgetExceededError`.
        """
        used = check_amounts(amounts)
        if path.__class__ is not str:
            path = check_path(path)
        place = None if key is None else _place(path, key)
        with self._lock:
            now = self._now()
            if place is not None:
                known = self._known(place, path, used, True)
                if known is not None:
                    return known
            cells = self._open(path, now)
            self._check_uncounted(used, cells)
            for axis in used:
                for cell in cells.get(axis, ()):
                    cell.record(used[axis])
            if key is None:
                key = self._new_id()
            hold = Hold(path, key, used, COMMITTED, None, used, cells)
            self._keep_settled(place or key, hold, now)
            return hold

    def commit(self, hold: Hold, actual: "dict[str, int] | None" = None) -> Hold:
        """Record what a call used in the place of its hold, in the windows the hold was taken in.

        More than was held, or than the limit, is recorded too. An axis that `actual` does not name
        counts at what was held, one that was not held is recorded all the same. What was really
        used always stands: a commit corrects a hold that had expired or was released. A second
        commit changes nothing.

        Returns the hold. Raises `UnknownHoldError` where it is not known any more.
        """
        used = None if actual is None else check_amounts(actual)
        with self._lock:
            hold = self._find(hold)
            if hold.state != COMMITTED:
                spent = hold.amounts
                if used is not None:
                    self._check_uncounted(used, hold.cells or {})
                    spent = dict(spent)
                    spent.update(used)
                self._settle(hold, COMMITTED, spent)
            return hold

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made; one that is settled stays as it is.

        Returns the hold, whose `state` tells. Raises `UnknownHoldError` where it is not known.
        """
        with self._lock:
            hold = self._find(hold)
            self._expire_one(hold, self._now())
            if hold.state == HELD:
                self._settle(hold, RELEASED, {})
            return hold

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least, and return it.

        Raises `HoldSettledError` where it is settled or has expired, `UnknownHoldError` where it is
        not known any more.
        """
        ttl_ms = check_ttl(ttl)
        with self._lock:
            hold = self._find(hold)
            now = self._now()
            self._expire_one(hold, now)
            if hold.state != HELD:
                raise HoldSettledError(hold.id, hold.state)
            hold.expires = max(hold.expires or 0, now + ttl_ms)
            return hold

    def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were.

        A limit has no more left afterwards than before, so nothing depends on when this is done. It
        is done from time to time without asking, too.
        """
        with self._lock:
            return self._expire(self._now())

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold that was taken on this path, by its `id`, which is its key if it had one.

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
            self._open(path, now)
            limits = [one for place in chain(path) for one in self._limits_of(place)]
            return [Balance.of(one.cell, *one.cell.reached()) for one in limits]

    def history(self, path: str) -> "list[Balance]":
        """Return what an account's own limits counted in windows that are over, the newest first.

        The last 32 of each limit are kept, by axis and window as in `balance`.
        """
        with self._lock:
            now = self._now()
            self._expire(now)
            self._open(path, now)
            over = [cell for one in self._limits_of(path) for cell in one.newest()]
            return [Balance.of(cell, cell.spent, cell.held) for cell in over]

    def _recount(self, cells: "dict[str, tuple[Cell, ...]]") -> None:
        """Have cells hold what live holds do."""
        for axis in cells:
            for cell in cells[axis]:
                holds = [
                    one for one in self._live.values() if cell in (one.cells or {}).get(axis, ())
                ]
                cell.held = sum([one.amounts.get(axis, 0) for one in holds])

    def _keep(self, place: str, hold: Hold, now: int) -> None:
        if place[0] != "#":
            self._turn(now)
        if len(self._live) >= self._sweep_at:  # twice as many as there were: some may be over
            self._expire(now)
            self._sweep_at = min(self._max_holds, max(FEW_HOLDS, 2 * len(self._live)))
            if len(self._live) >= self._max_holds:
                text = f"the ledger has its {self._max_holds} live holds: raise max_holds"
                raise LedgerFullError(text)
        expires = hold.expires or 0
        if expires < self._soonest:
            self._soonest = expires
        self._live[place] = hold

    def _keep_settled(self, place: str, hold: Hold, now: int) -> None:
        if place[0] != "#":
            self._turn(now)
            self._settled[place] = hold

    def _new_id(self) -> str:
        self._taken = taken = self._taken + 1
        return f"#{taken}"

    def _refuse(self, cells: "dict[str, tuple[Cell, ...]]", asked: "dict[str, int]") -> None:
        """Raise for the limit that has too little left for the longest time, if one has."""
        found = []
        for axis in asked:
            for cell in cells.get(axis, ()):
                spent, held = cell.reached()
                if spent + held + asked[axis] > cell.cap:
                    limit = cell.limit
                    place = (limit.account, axis, limit.window.name)
                    found.append((cell.end, place, asked[axis], cell.cap, spent, held))
        if found:
            raise refusal(found)

    def _known(
        self, place: str, path: str, amounts: "dict[str, int]", charged: bool
    ) -> "Hold | None":
        hold = self._look_up(place)
        if hold is None:
            return None
        if hold.path != path or hold.amounts != amounts or (hold.expires is None) != charged:
            raise KeyReusedError(path, hold.id)
        self._expire_one(hold, self._now())
        return hold

    def _find(self, hold: Hold) -> Hold:
        if hold.id[:1] == "#":
            found = self._live.get(hold.id)
            if found is None and hold.state != HELD:
                return hold
        else:
            found = self._look_up(_place(hold.path, hold.id))
        foreign = hold.cells is not None and found is not hold and hold.id[:1] == "#"
        if found is None or found.path != hold.path or foreign:
            raise UnknownHoldError(hold.path, hold.id)
        return found

    def _look_up(self, place: str) -> "Hold | None":
        return self._live.get(place) or self._settled.get(place) or self._former.get(place)

    def _expire(self, now: int) -> int:
        self._turn(now)
        if now < self._soonest:
            return 0
        over = [hold for hold in self._live.values() if now >= (hold.expires or 0)]
        for hold in over:
            self._expire_one(hold, now)
        self._soonest = min([FAR] + [hold.expires or 0 for hold in self._live.values()])
        return len(over)

    def _expire_one(self, hold: Hold, now: int) -> None:
        if hold.state == HELD and now >= (hold.expires or 0):
            self._settle(hold, EXPIRED, hold.amounts)

    def _settle(self, hold: Hold, state: str, used: "dict[str, int]") -> None:
        cells = hold.cells or {}
        was, amounts = hold.state, hold.amounts
        for axis in cells:
            amount, spent = amounts.get(axis, 0), used.get(axis, 0)
            if amount or spent:
                for cell in cells[axis]:
                    cell.settle(was, amount, spent)
        hold.state = state
        hold.actual = used
        if was == HELD:
            self._retire(hold)

    def _retire(self, hold: Hold) -> None:
        if hold.id[0] == "#":
            self._live.pop(hold.id, None)
        else:
            place = _place(hold.path, hold.id)
            self._settled[place] = self._live.pop(place)

    def _turn(self, now: int) -> None:
        """Forget what was settled too long ago: two dicts in turn are cheaper than many dates."""
        if now - self._turned >= self._keep_ms:
            self._former, self._settled = self._settled, {}
            self._turned = now


def _place(path: str, key: str) -> str:
    return root(check_path(path)) + "/" + check_key(key)

"""A ledger that leases blocks of another's budget, and asks for a block, not for each call."""

import asyncio

from budget_core.checks import check_count
from budget_core.durations import in_ms
from budget_core.errors import refuse
from budget_core.ledger.backoff import LedgerWithBackoff
from budget_core.ledger.bucket import COMMITTED, FAR
from budget_core.ledger.checks import check_amounts, check_key, check_path
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.hold import TTL, Hold, bounded, check_hold, check_ttl, wake
from budget_core.ledger.leased_block import PathLease
from budget_core.ledger.outbox import new_key
from budget_core.monotonic import MONOTONIC
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from budget_core._types import Lock
    from budget_core.ledger.hold import Balance
    from budget_core.ledger.leased_block import Former, LeasedBlock
    from budget_core.monotonic import MonotonicClock

    T = TypeVar("T")

BLOCK = {"tokens": 100_000, "calls": 100}
_RETRY_MS = 1000


class LeasedLedger:
    """A ledger that leases blocks of another one's budget, and admits calls within them.

    A block of each path is held upstream for `ttl` seconds at a time, and extended at half of that
    while it is used. The unused part is given back on `close`, after `idle` seconds without a
    claim, and when a window ends: a claim counts in the window it was made in. All of this happens
    during calls, nothing runs in between; `expire` does it if no other call comes.

    A claim that the blocks cannot cover draws what is missing, down to the last bit that is left.
    Each process can strand at most one unused `block`, or one larger claim, per path. More than the
    limit is never admitted. While the ledger upstream is out of reach, claims are admitted within
    the blocks until these expire or their window ends, then refused with `LedgerUnavailableError`;
    settlements are delivered later. A process that dies leaves its blocks to expire, as spent.

    `ledger` blocks or is awaited. Holds and their keys are known to this process only. `clock`
    returns Unix seconds, for holds; leases follow the `monotonic` clock. `lock` is for threads,
    `gate` an async lock that is held while the ledger is asked (by default asyncio's). At most
    `max_paths` paths are kept.
    """

    UPSTREAM = LedgerWithBackoff

    def __init__(
        self,
        ledger: "Any",
        block: "dict[str, Any] | None" = None,
        ttl: float = 600,
        clock: "Callable[[], float]" = WALL,
        monotonic: "MonotonicClock" = MONOTONIC,
        *,
        idle: float = 60,
        max_paths: int = 1000,
        lock: "Lock | None" = None,
        gate: "Any" = None,
    ) -> None:
        self.upstream = self.UPSTREAM(ledger, monotonic)
        self._block = check_amounts(BLOCK if block is None else block)
        if not self._block:
            refuse("block", "amounts of at least one axis", block)
        self._ttl = ttl
        self._ttl_ms = check_ttl(ttl)
        self._idle_ms = FAR if in_ms("idle", idle) is None else in_ms("idle", idle) or 0
        self._clock = clock
        self._max_paths = check_count("max_paths", max_paths)
        self._lock = lock
        self._gate = gate or asyncio.Lock()
        self._leases: dict[str, PathLease] = {}
        self._due = FAR

    def claim(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
        former: "Former | None" = None,
    ) -> Hold | None:
        """Hold amounts of what is leased, at once; `None` if the ledger has to be asked.

        With a `former` hold and what was used of it, it is committed in the same step.
        """
        lease = self._leases.get(path)
        now = self.upstream.now()
        if lease is None or now >= self._due:
            return None
        asked = dict(amounts)
        if None in asked.values():
            if not lease.block.leases:
                return None
            asked = self._bounded(asked, lease.limited)
        hold = lease.claim(asked, key, ttl, now, former)
        return hold if former is None else self._settled(lease, hold)

    def record(self, hold: Hold, actual: "dict[str, int] | None" = None) -> Hold:
        """Settle a hold here, at once; if `is_due` then, `maintain` tells the ledger."""
        lease = self._lease_of(hold)
        return self._settled(lease, lease.commit(hold, actual))

    def _settled(self, lease: PathLease, found: "T") -> "T":
        """Return the result of a settlement; if it is urgent, `maintain` is due at once."""
        if lease.is_urgent:
            self._due = 0
        wake(self, lease.path)
        return found

    @property
    def is_due(self) -> bool:
        """Whether there is something to do upstream: leases to extend or to settle."""
        return self.upstream.now() >= self._due

    async def reserve(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts of what is leased, or of a block drawn for them.

        Raises as `Ledger.reserve` does, and `LedgerUnavailableError`.
        """
        if wait:
            from budget_core.ledger.waiting import reserve_waiting  # most programs never wait

            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        hold = self.claim(path, amounts, key, ttl)
        return await self._claim_more(path, amounts, key, ttl) if hold is None else hold

    async def renew(
        self,
        hold: Hold,
        actual: "dict[str, Any] | None",
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step, or raise.

        The settlement is told upstream in time, as with `commit`.
        """
        self._lease_of(hold)
        former = (hold, None if actual is None else check_amounts(actual))
        taken = self.claim(hold.path, amounts, key, ttl, former)
        if taken is None:
            taken = await self._claim_more(hold.path, amounts, key, ttl, former)
        await self.maintain()
        return taken

    async def _claim_more(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None,
        ttl: float,
        former: "Former | None" = None,
    ) -> Hold:
        """Do as `claim`, with blocks drawn for it."""
        asked = check_amounts(amounts, True)
        async with self._gate:
            await self._maintain()
            rows = None
            if None in asked.values():
                known = self._leases.get(path)
                if known is not None and known.block.leases:
                    rows = known.limited
                else:
                    rows = await self.upstream.ask("balance", path)
                asked = self._bounded(asked, rows)
            lease = self._open(path)
            hold = lease.claim(asked, key, ttl, self.upstream.now(), former)
            try:
                while hold is None:
                    await self._draw(lease, asked, rows, former)
                    hold = lease.claim(asked, key, ttl, self.upstream.now(), former)
            finally:
                self._plan()
        return hold if former is None else self._settled(lease, hold)

    async def commit(self, hold: Hold, actual: "dict[str, Any] | None" = None) -> Hold:
        """Record what a call used in the place of its hold, here at once and upstream in time.

        What is more than was leased is charged upstream as soon as that can be reached.
        """
        found = self.record(hold, actual)
        await self.maintain()
        return found

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        found = self._lease_of(hold).local.release(hold)
        wake(self, hold)
        await self.maintain()
        return found

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now."""
        found = self._lease_of(hold).local.extend(hold, ttl)
        await self.maintain()
        return found

    async def charge(self, path: str, amounts: "dict[str, Any]", key: str | None = None) -> Hold:
        """Record amounts upstream without asking, now or when it can be reached."""
        used = check_amounts(amounts)
        name = new_key() if key is None else check_key(key)
        async with self._gate:
            try:
                await self.upstream.deliver()
                charged: Hold = await self.upstream.ask("charge", path, used, name)
                wake(self, path)
                return charged
            except (LedgerUnavailableError, LedgerFullError) as error:
                unknown = getattr(error, "applied", False) is None
                self.upstream.outbox.charge(path, used, name if key or unknown else None)
                self._due = min(self._due, self.upstream.now() + _RETRY_MS)
        return Hold(path, name, used, COMMITTED, None, used)

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold that was taken here."""
        return self._lease_of(Hold(path, id)).local.hold(path, id)

    async def balance(self, path: str) -> "list[Balance]":
        """Return the balance upstream; leased amounts are held there."""
        found: list[Balance] = await self.upstream.ask("balance", path)
        return found

    async def expire(self) -> int:
        """Count expired holds as spent and do what is due; return how many holds there were."""
        count = sum([lease.local.expire() for lease in list(self._leases.values())])
        self._due = 0
        await self.maintain()
        wake(self)
        return count

    async def maintain(self) -> None:
        """Do what is due: extend, settle and give back leases, if the ledger can be reached."""
        if self.is_due:
            async with self._gate:
                await self._maintain()

    async def close(self) -> None:
        """Give back what is unused, and close the ledger; calls in flight count at what they hold.

        Raises `LedgerUnavailableError` if it cannot be reached: unless closed again, the leases
        then expire, which counts them as spent.
        """
        async with self._gate:
            for lease in self._leases.values():
                lease.close(self.upstream.outbox)
            await self.upstream.close()

    def _bounded(self, asked: "dict[str, Any]", rows: "list[Balance]") -> "dict[str, int]":
        """Return amounts with 1 for those without a bound, so that a block is leased for them.

        Axes of no block are left out. Raises `BudgetExceededError` if one of them is limited.
        """
        found = bounded(asked, rows)
        found.update({axis: 1 for axis in asked if asked[axis] is None and axis in self._block})
        return found

    def _lease_of(self, hold: Hold) -> PathLease:
        lease = self._leases.get(check_hold(hold).path)
        if lease is None:
            raise UnknownHoldError(hold.path, hold.id)
        return lease

    def _open(self, path: str) -> PathLease:
        lease = self._leases.get(path)
        if lease is None:
            if len(self._leases) >= self._max_paths:
                unused = [one.path for one in self._leases.values() if one.is_idle]
                if not unused:
                    raise LedgerFullError(f"{self._max_paths} paths are leased: raise max_paths")
                del self._leases[unused[0]]
            lease = PathLease(check_path(path), list(self._block), self._clock, self._lock)
            self._leases[path] = lease
        return lease

    async def _maintain(self) -> None:
        now = self.upstream.now()
        if now < self._due:
            return
        try:
            for lease in self._leases.values():
                lease.maintain(self.upstream.outbox, now, self._idle_ms)
            await self.upstream.deliver()
            for lease in list(self._leases.values()):
                if lease.block.leases and now >= lease.extend_at:
                    await self._extend(lease)
        except LedgerError:
            for lease in self._leases.values():
                lease.extend_at = max(lease.extend_at, now + _RETRY_MS)
        self._plan()

    def _plan(self) -> None:
        now = self.upstream.now()
        due = [lease.due(now, self._idle_ms) for lease in self._leases.values()]
        self._due = min(due + [now + _RETRY_MS if self.upstream.outbox.entries else FAR])

    async def _extend(self, lease: PathLease) -> None:
        """Extend what is held upstream for a path to `ttl` from now; note when its window ends."""
        upstream = self.upstream
        asked = upstream.now()
        hold = lease.block.leases[0]
        for held in lease.block.leases:
            try:
                hold = await upstream.ask("extend", held, self._ttl)
            except (HoldSettledError, UnknownHoldError):
                lease.block.expires = 0
                return
        lease.block.expires = asked + self._ttl_ms
        lease.extend_at = asked + self._ttl_ms // 2
        balances = await upstream.ask("balance", lease.path)
        lease.note(balances, (hold.expires_ms or 0) - self._ttl_ms, asked)

    async def _draw(
        self,
        lease: PathLease,
        asked: "dict[str, int]",
        rows: "list[Balance] | None",
        former: "Former | None",
    ) -> None:
        """Hold another block upstream, or what is left of one, for a claim that lacks something.

        `rows` are the balances of its path, if they were read for the claim.
        """
        upstream = self.upstream
        await upstream.deliver()
        first = not lease.block.leases
        if first and rows is None:
            rows = await upstream.ask("balance", lease.path)
        now = upstream.now()
        hold = await self._reserve_block(lease, asked, former)
        if first:
            lease.extend_at = now + self._ttl_ms // 2
            lease.note(rows or [], (hold.expires_ms or 0) - self._ttl_ms, now)
        lease.add(hold, now + self._ttl_ms)
        lease.block.settle(upstream.outbox, lease.path)
        try:
            await upstream.deliver()
        except LedgerError:
            pass  # it stays in the outbox, and the block is drawn

    async def _reserve_block(
        self, lease: PathLease, asked: "dict[str, int]", former: "Former | None"
    ) -> Hold:
        ask, outbox = self.upstream.ask, self.upstream.outbox
        effect = {} if former is None else lease.effect(former)
        needed = {axis: max(0, asked[axis] - effect.get(axis, (0, 0))[1]) for axis in asked}
        want, lack = lease.wanted(needed, self._block)
        while True:
            try:
                return await outbox.reserve(ask, lease.path, want, new_key(), self._ttl)
            except BudgetExceededError as error:
                axis, least = error.axis, lack.get(error.axis, 0)
                if error.left < least or not want.get(axis):
                    raise _refusal(error, asked.get(axis, 0), lease.block, *effect.get(axis, ()))
                want = dict(want)
                want[axis] = max(least, error.left // 2)
                if not want[axis]:
                    del want[axis]


def _refusal(
    error: BudgetExceededError, asked: int, block: "LeasedBlock", spent: int = 0, freed: int = 0
) -> BudgetExceededError:
    """Return the error for the caller, to whom what is leased and free was left as well.

    A former hold's commit would have `spent` and `freed` so much of the block.
    """
    used = max(0, block.unsettled(error.axis) + spent)
    held = max(0, error.held - used - max(0, block.free(error.axis) + freed))
    return error.but(asked, error.spent + used, held)

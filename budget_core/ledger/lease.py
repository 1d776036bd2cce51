"""Draw blocks of a budget, and admit calls within them without asking for each."""

from budget_core.checks import check_count
from budget_core.ledger.bucket import COMMITTED
from budget_core.ledger.errors import (
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.lease_refill import Blocks
from budget_core.ledger.leased_block import Share
from budget_core.ledger.limit import check_amounts, check_key
from budget_core.ledger.memory import TTL
from budget_core.ledger.outbox import Upstream
from budget_core.ledger.records import Hold
from budget_core.ledger.window import FAR
from budget_core.monotonic import MONOTONIC, in_ms
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.records import Balance
    from budget_core.monotonic import MonotonicClock

BLOCK = {"tokens": 100_000, "calls": 100}
RETRY_MS = 1000


class LeasedLedger:
    """A ledger that holds blocks of another's budget, and goes on within them when that is away.

    A block of each path is held upstream for `ttl` seconds at a time, and extended at half of that
    while it is used. What is unused is given back on `close`, after `idle` seconds without a claim,
    and when a window ends: a claim is counted in the window it was made in. All of this is done at
    calls, nothing runs in between; `expire` does it where no other call comes.

    A claim that the blocks cannot cover draws what is missing, down to the last bit that is left.
    Out of sight of others is at most one `block`, or one larger claim, of each path a process uses.
    More than the limit is never admitted. When the upstream ledger is out of reach, claims are
    admitted within the blocks until these expire or their window ends, then refused with
    `LedgerUnavailableError`; settlements are passed up later. A process that dies leaves its blocks
    to expire, which counts them as spent.

    `ledger` may have coroutines for methods, or not. Holds and their keys are known to this process
    only. `clock` returns Unix seconds, for holds; leases follow the `monotonic` clock. `lock` is
    for threads, `gate` an async one that is held while the ledger is asked (by default asyncio's).
    At most `max_paths` paths are kept.
    """

    def __init__(
        self,
        ledger: "Any",
        block: "dict[str, int] | None" = None,
        ttl: float = 600,
        clock: "Callable[[], float]" = WALL,
        monotonic: "MonotonicClock" = MONOTONIC,
        *,
        idle: float = 60,
        max_paths: int = 1000,
        lock: "Lock | None" = None,
        gate: "Any" = None,
    ) -> None:
        self.upstream = Upstream(ledger, monotonic)
        self._blocks = Blocks(self.upstream, BLOCK if block is None else block, ttl)
        self._idle_ms = FAR if in_ms("idle", idle) is None else in_ms("idle", idle) or 0
        self._clock = clock
        self._max_paths = check_count("max_paths", max_paths)
        self._lock = lock
        if gate is None:
            import asyncio

            gate = asyncio.Lock()
        self._gate = gate
        self._shares: dict[str, Share] = {}
        self._due = FAR

    def claim(
        self, path: str, amounts: "dict[str, int]", key: str | None = None, ttl: float = TTL
    ) -> Hold | None:
        """Hold amounts of what is leased, at once; `None` where the ledger has to be asked."""
        share = self._shares.get(path)
        now = self.upstream.now()
        if share is None or now >= self._due:
            return None
        return share.claim(amounts, key, ttl, now)

    def record(self, hold: Hold, actual: "dict[str, int] | None" = None) -> Hold:
        """Settle a hold here, at once; where `is_due`, the ledger is to be told by `expire`."""
        found, tell = self._share_of(hold).commit(hold, actual)
        if tell:
            self._due = 0
        return found

    @property
    def is_due(self) -> bool:
        """Whether there is something to do upstream: blocks to extend or to settle."""
        return self.upstream.now() >= self._due

    async def reserve(
        self, path: str, amounts: "dict[str, int]", key: str | None = None, ttl: float = TTL
    ) -> Hold:
        """Hold amounts of what is leased, or of a block drawn for them.

        Raises as `Ledger.reserve` does, and `LedgerUnavailableError`.
        """
        hold = self.claim(path, amounts, key, ttl)
        if hold is not None:
            return hold
        asked = check_amounts(amounts)
        async with self._gate:
            await self._tend()
            share = self._open(path)
            hold = share.claim(asked, key, ttl, self.upstream.now())
            try:
                while hold is None:
                    await self._blocks.draw(share, asked)
                    hold = share.claim(asked, key, ttl, self.upstream.now())
            finally:
                self._plan()
        return hold

    async def commit(self, hold: Hold, actual: "dict[str, int] | None" = None) -> Hold:
        """Record what a call used in the place of its hold, here at once and upstream in time.

        What is more than was leased is charged upstream as soon as that can be reached.
        """
        found = self.record(hold, actual)
        await self.tend()
        return found

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        found = self._share_of(hold).local.release(hold)
        await self.tend()
        return found

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        found = self._share_of(hold).local.extend(hold, ttl)
        await self.tend()
        return found

    async def charge(self, path: str, amounts: "dict[str, int]", key: str | None = None) -> Hold:
        """Record amounts upstream without asking, now or when it can be reached."""
        used = check_amounts(amounts)
        name = self.upstream.key() if key is None else check_key(key)
        async with self._gate:
            try:
                await self.upstream.settle()
                charged: Hold = await self.upstream.ask("charge", path, used, name)
                return charged
            except (LedgerUnavailableError, LedgerFullError) as error:
                unknown = getattr(error, "applied", False) is None
                self.upstream.charge(path, used, name if key or unknown else None)
                self._due = min(self._due, self.upstream.now() + RETRY_MS)
        return Hold(path, name, used, COMMITTED, None, used)

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold that was taken here."""
        return self._share_of(Hold(path, id)).local.hold(path, id)

    async def balance(self, path: str) -> "list[Balance]":
        """Return what stands upstream: what is leased is held there."""
        found: list[Balance] = await self.upstream.ask("balance", path)
        return found

    async def expire(self) -> int:
        """Count as spent what holds stand for that are over, and tend all blocks."""
        count = sum([share.local.expire() for share in list(self._shares.values())])
        self._due = 0
        await self.tend()
        return count

    async def tend(self) -> None:
        """Do what is due: extend, settle and give back blocks, if the ledger can be reached."""
        if self.is_due:
            async with self._gate:
                await self._tend()

    async def close(self) -> None:
        """Give back what is unused, and close the ledger; calls in flight count at what they hold.

        Raises `LedgerUnavailableError` where it cannot be reached: unless closed again, the blocks
        then expire, which counts them as spent.
        """
        async with self._gate:
            for share in self._shares.values():
                share.give_back(self.upstream)
            self.upstream.hurry()
            await self.upstream.settle()
            await self.upstream.close()

    def _share_of(self, hold: Hold) -> Share:
        share = self._shares.get(hold.path)
        if share is None:
            raise UnknownHoldError(hold.path, hold.id)
        return share

    def _open(self, path: str) -> Share:
        share = self._shares.get(path)
        if share is None:
            if len(self._shares) >= self._max_paths:
                unused = [one.path for one in self._shares.values() if one.is_idle]
                if not unused:
                    raise LedgerFullError(f"{self._max_paths} paths are leased: raise max_paths")
                del self._shares[unused[0]]
            share = Share(path, list(self._blocks.block), self._clock, self._lock)
            self._shares[path] = share
        return share

    async def _tend(self) -> None:
        now = self.upstream.now()
        if now < self._due:
            return
        try:
            for share in self._shares.values():
                share.tend(self.upstream, now, self._idle_ms)
            await self.upstream.settle()
            for share in list(self._shares.values()):
                if share.batch.holds and now >= share.extend_at:
                    await self._blocks.extend(share)
        except LedgerError:
            for share in self._shares.values():
                share.extend_at = max(share.extend_at, now + RETRY_MS)
        self._plan()

    def _plan(self) -> None:
        now = self.upstream.now()
        due = [share.due(now, self._idle_ms) for share in self._shares.values()]
        self._due = min(due + [now + RETRY_MS if self.upstream.owing else FAR])

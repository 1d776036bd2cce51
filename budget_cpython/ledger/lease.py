"""Leased blocks of any ledger's budgets, for asyncio and for threads."""

from collections.abc import Callable, Mapping
from typing import Any

from budget_core.ledger import lease
from budget_core.ledger._types import AnyLedger, LedgerProtocol
from budget_core.ledger.hold import TTL, Hold, wake
from budget_core.ledger.outbox import finish
from budget_core.ledger.waiting import reserve_blocking
from budget_core.monotonic import MONOTONIC, MonotonicClock
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.ledger.passthrough import AsyncPassthrough, BlockingLedger
from budget_cpython.ledger.upstream import AwaitedUpstream, BlockingUpstream
from budget_cpython.ledger.usage_log import flush_usage_awaited
from budget_cpython.wall_clock import WALL


class AsyncLeasedLedger(AwaitedUpstream, lease.LeasedLedger, AsyncPassthrough):
    """A ledger that leases blocks of another one's budget, and admits calls within them.

    Operations on accounts are passed on to the ledger upstream. A process that holds a block
    notices a change by `set_limits` within half of its `ttl`. A forked process begins without
    blocks, and knows no hold of its parent's.
    """

    def __init__(
        self,
        ledger: AnyLedger,
        block: dict[str, Any] | None = None,
        ttl: float = 600,
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        idle: float = 60,
        max_paths: int = 1000,
    ) -> None:
        super().__init__(ledger, block, ttl, clock, monotonic, idle=idle, max_paths=max_paths)
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have no blocks and owe nothing, as in a process that was forked."""
        self.upstream.begin_again()
        self._leases = {}
        self._lock = self.LOCK()
        self._gate = self.GATE()

    async def close(self) -> None:
        """Give back what is unused, and close the ledger, once it was told what calls used."""
        await flush_usage_awaited(self)
        await super().close()

    async def _claim_more(self, path: str, *rest: Any) -> Hold:
        hold: Hold = await self.process.as_one_call(path, True, super()._claim_more(path, *rest))
        return hold

    async def _do(self, operation: str, *arguments: Any) -> Any:
        return await self.upstream.ask(operation, *arguments)


class _ThreadsLease(BlockingUpstream, AsyncLeasedLedger):
    pass


class LeasedLedger(BlockingLedger):
    """A ledger that leases blocks of another one's budget, and admits threads' calls within them.

    `ledger` is one that blocks. A `block` of each path is held there for `ttl` seconds at a time; a
    claim within it is local. Claims are admitted within the blocks while that ledger is out of
    reach. What is unused is given back on `close` and after `idle` seconds. More than a limit is
    never admitted; each process can strand at most one unused block per path.
    """

    def __init__(
        self,
        ledger: LedgerProtocol,
        block: dict[str, Any] | None = None,
        ttl: float = 600,
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        idle: float = 60,
        max_paths: int = 1000,
    ) -> None:
        self._leased = _ThreadsLease(
            ledger, block, ttl, clock, monotonic, idle=idle, max_paths=max_paths
        )
        super().__init__(self._leased)

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts of what is leased, or of a block drawn for them."""
        if wait:
            return reserve_blocking(self, path, amounts, key, ttl, wait)
        hold = self._leased.claim(path, amounts, key, ttl)
        return finish(self._leased.reserve(path, amounts, key, ttl)) if hold is None else hold

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Record what a call used in the place of its hold, upstream in time."""
        found = self._leased.record(hold, actual)
        if self._leased.is_due:
            finish(self._leased.maintain())
        wake(self, hold)
        return found

"""Go on within a cap while a ledger is out of reach, and settle that later."""

from collections.abc import Callable
from threading import Lock
from typing import Any, cast

from budget_core.ledger.errors import (
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.limit import check_amounts, check_key, check_path
from budget_core.ledger.outbox import new_key
from budget_core.ledger.records import TTL, Balance, Hold, check_ttl
from budget_core.ledger.upstream import Upstream
from budget_core.monotonic import MONOTONIC, MonotonicClock
from budget_cpython.ledger.forked import begin_again_in_children
from budget_cpython.ledger.grants import Grants
from budget_cpython.ledger.locks import TaskGate, ThreadGate
from budget_cpython.ledger.passthrough import Through
from budget_cpython.ledger.remote import RemoteLedger
from budget_cpython.wall_clock import WALL

TROUBLE = (LedgerUnavailableError, LedgerFullError)


class AsyncAllowingLedger(Through):
    """A ledger that grants up to `cap` by itself while the one upstream is in trouble, or full.

    The cap is for all paths of this process together; an axis that it does not name is not limited.
    It is whole again once all that was granted is settled upstream: there each grant becomes a hold
    that is committed, or is recorded past the limit where there is too little left. So each outage
    overshoots a limit by no more than the cap a process, and only by what was granted in it; the
    next one may do so again. Counted is in the window in which it is settled.

    Holds taken before are committed and released later, and charges recorded, in order and once
    each. Up to `most` entries wait, in memory: a process that ends before they are settled
    (`unsettled` counts them) loses them. One that is forked has the whole cap, and leaves to its
    parent what that granted and owes. The ledger is asked again as `Upstream` says.
    """

    def __init__(
        self,
        ledger: Any,
        cap: dict[str, int],
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        most: int = 10_000,
        lock: Any = None,
        gate: Any = None,
    ) -> None:
        self.upstream = Upstream(ledger, monotonic, most)
        self._grants = Grants(self.upstream, cap, clock, most, lock)
        self._gate = gate or TaskGate()
        if gate is None:
            begin_again_in_children(self)

    def begin_again(self, lock: Any = None, gate: Any = None) -> None:
        """Have the whole cap and owe nothing, as befits a process that was forked."""
        self.upstream.begin_again()
        self._grants.begin_again(lock)
        self._gate = gate or TaskGate()

    @property
    def unsettled(self) -> int:
        """How much there is to settle: calls in flight that were granted here, and entries."""
        return self._grants.unsettled

    async def reserve(
        self, path: str, amounts: dict[str, int], key: str | None = None, ttl: float = TTL
    ) -> Hold:
        """Hold amounts upstream, or of the cap while that is in trouble.

        Raises as `Ledger.reserve` does; with the cap used up, what the trouble is.
        """
        asked = check_amounts(amounts)
        check_path(path)
        check_ttl(ttl)
        name = new_key() if key is None else check_key(key)
        if key is not None and self._grants.known(Hold(path, name)):
            return self._grants.local.reserve(path, asked, name, ttl)
        try:
            return cast(Hold, await self._ask("reserve", path, asked, name, ttl))
        except TROUBLE as error:
            async with self._gate:
                return self._grants.take(Hold(path, name, asked), ttl, error, key is None)

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent without asking, now or later."""
        used = check_amounts(amounts)
        name = new_key() if key is None else check_key(key)
        try:
            return cast(Hold, await self._ask("charge", check_path(path), used, name))
        except TROUBLE:
            async with self._gate:
                self.upstream.outbox.charge(path, used, name)
            return Hold(path, name, used, Hold.COMMITTED, None, used)

    async def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Record what a call used in the place of its hold, now or later."""
        used = None if actual is None else check_amounts(actual)
        if self._grants.known(hold):
            async with self._gate:
                return self._grants.commit(hold, used)
        try:
            return cast(Hold, await self._ask("commit", hold, used))
        except TROUBLE:
            async with self._gate:
                self.upstream.outbox.commit(hold, used)
            spent = {**hold.amounts, **(used or {})}
            return Hold(hold.path, hold.id, hold.amounts, Hold.COMMITTED, hold.expires, spent)

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made, now or later."""
        if self._grants.known(hold):
            async with self._gate:
                return self._grants.release(hold)
        try:
            return cast(Hold, await self._ask("release", hold))
        except TROUBLE:
            async with self._gate:
                self.upstream.outbox.release(hold)
            return Hold(hold.path, hold.id, hold.amounts, Hold.RELEASED, hold.expires, {})

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now; in trouble it stays as it is.

        One that expires meanwhile counts as spent, until its commit says what was used.
        """
        if self._grants.known(hold):
            return self._grants.local.extend(hold, ttl)
        try:
            return cast(Hold, await self._ask("extend", hold, ttl))
        except TROUBLE:
            return hold

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        if self._grants.known(Hold(path, id)):
            return self._grants.local.hold(path, id)
        return cast(Hold, await self._ask("hold", path, id))

    async def balance(self, path: str) -> list[Balance]:
        """Return what stands upstream; raises while that is in trouble."""
        return cast(list[Balance], await self._ask("balance", path))

    async def expire(self) -> int:
        """Count as spent what holds stand for that are over; settle what can be settled."""
        count = self._grants.local.expire()
        try:
            return count + cast(int, await self._ask("expire"))
        except TROUBLE:
            return count

    async def close(self) -> None:
        """Settle what is owed and close the ledger upstream; calls in flight count in full.

        Raises what the trouble is, with nothing lost or closed: closing again tries again.
        """
        async with self._gate:
            self._grants.commit_all()
            await self.upstream.close()

    async def _ask(self, name: str, *arguments: Any) -> Any:
        if self._grants.used or self.upstream.outbox.entries:
            async with self._gate:
                try:
                    await self._grants.settle()
                except LedgerFullError:  # what frees room has to get through
                    pass
        return await self.upstream.ask(name, *arguments)


class AllowingLedger(RemoteLedger):
    """The same for threads; `ledger` is one that blocks."""

    def __init__(
        self,
        ledger: Any,
        cap: dict[str, int],
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        most: int = 10_000,
    ) -> None:
        allowing = AsyncAllowingLedger(
            ledger, cap, clock, monotonic, most=most, lock=Lock(), gate=ThreadGate()
        )
        super().__init__(cast(Any, allowing))
        self._allowing = allowing
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have the whole cap and owe nothing, as befits a process that was forked."""
        self._allowing.begin_again(Lock(), ThreadGate())

    @property
    def unsettled(self) -> int:
        """How much there is to settle: calls in flight that were granted here, and entries."""
        return self._allowing.unsettled

"""Grant holds up to a cap while a ledger is out of reach, and settle them later."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from budget_core.errors import refuse
from budget_core.ledger._types import AnyLedger, LedgerProtocol
from budget_core.ledger.checks import check_amounts, check_key, check_path
from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.hold import Hold, check_hold, check_ttl
from budget_core.ledger.outbox import new_key
from budget_core.monotonic import MONOTONIC, MonotonicClock
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.noting import note_quietly_awaited
from budget_cpython.ledger.passthrough import AsyncPassthrough, BlockingLedger
from budget_cpython.ledger.prefilled_lease import PrefilledLease
from budget_cpython.ledger.upstream import AwaitedUpstream, BlockingUpstream
from budget_cpython.wall_clock import WALL

OFFLINE = (LedgerUnavailableError, LedgerFullError)


class AsyncOfflineCapLedger(AwaitedUpstream, AsyncPassthrough):
    """A ledger that grants up to `cap` by itself while the one upstream is out of reach, or full.

    While that one is damaged (`LedgerCorruptError`) nothing is granted.

    The cap is for all paths of this process together; an axis that it does not name is not limited.
    It is whole again once all grants are settled upstream: there each becomes a hold that is
    committed, or is recorded past the limit if too little is left. So an outage overshoots a limit
    by at most the cap of each process. A grant counts in the window in which it is settled.

    Holds taken before are committed and released later, and charges recorded, once each. Up to
    `most` grants and entries wait, in memory (`unsettled`): a process that ends before they are
    settled loses them. A forked process has the whole cap, and leaves to its parent what that
    granted and owes. The ledger is asked again as `LedgerWithBackoff` says.
    """

    def __init__(
        self,
        ledger: AnyLedger,
        cap: dict[str, Any],
        clock: Callable[[], float] = WALL,
        monotonic: MonotonicClock = MONOTONIC,
        *,
        most: int = 10_000,
    ) -> None:
        self.upstream = self.UPSTREAM(ledger, monotonic, most)
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
        outbox = self.upstream.outbox
        self._lease = PrefilledLease(self._cap, self._clock, self.LOCK(), outbox)
        self._gate = self.GATE()

    @property
    def unsettled(self) -> int:
        """The number of grants in flight, and of entries in the outbox."""
        return self._lease.unsettled + len(self.upstream.outbox.entries)

    async def _do(self, operation: str, *arguments: Any) -> Any:
        """Do an operation by the method named after it, such as `_reserve`, or else upstream."""
        ours = getattr(self, "_" + operation, None)
        return await (ours(*arguments) if ours else self._ask(operation, *arguments))

    async def _reserve(
        self, path: str, amounts: Mapping[str, Any], key: str | None, ttl: float
    ) -> Hold:
        """Hold amounts upstream, or of the cap while that is out of reach.

        Raises as `Ledger.reserve` does; once the cap is used up, why the ledger is out of reach.
        """
        asked = Hold(check_path(path), _name(key), check_amounts(amounts, True))
        check_ttl(ttl)
        if key is not None and self._lease.has(asked):
            return self._lease.reserve(path, asked.amounts, key, ttl)
        try:
            return cast(Hold, await self._ask("reserve", path, asked.amounts, asked.id, ttl))
        except OFFLINE as error:
            async with self._gate:
                return self._grant(asked, ttl, error, key is None)

    async def _charge(self, path: str, amounts: dict[str, Any], key: str | None) -> Hold:
        used, name = check_amounts(amounts), _name(key)
        spent = Hold(check_path(path), name, used, Hold.COMMITTED, None, used)
        return await self._settle_or_owe(spent, "charge", path, used, name)

    async def _commit(self, hold: Hold, actual: dict[str, Any] | None) -> Hold:
        used = None if actual is None else check_amounts(actual)
        if self._lease.has(hold):
            async with self._gate:
                return self._lease.commit(hold, used)
        spent = {**hold.amounts, **(used or {})}
        found = Hold(hold.path, hold.id, hold.amounts, Hold.COMMITTED, hold.expires_ms, spent)
        return await self._settle_or_owe(found, "commit", hold, used)

    async def _renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None,
        ttl: float,
    ) -> Hold:
        """Commit a hold and take the next one; one of the cap is committed once that is taken."""
        used = None if actual is None else check_amounts(actual)
        asked = Hold(check_hold(hold).path, _name(key), check_amounts(amounts, True))
        check_ttl(ttl)
        if asked.id == hold.id:
            raise KeyReusedError(hold.path, hold.id)
        if self._lease.has(hold):
            taken = await self._reserve(hold.path, asked.amounts, key, ttl)
            await self._commit(hold, used)
            return taken
        try:
            return cast(Hold, await self._ask("renew", hold, used, asked.amounts, asked.id, ttl))
        except OFFLINE as error:
            async with self._gate:
                taken = self._grant(asked, ttl, error, key is None)
                self.upstream.outbox.commit(hold, used)
                return taken

    async def _release(self, hold: Hold) -> Hold:
        if self._lease.has(hold):
            async with self._gate:
                return self._lease.release(hold)
        found = Hold(hold.path, hold.id, hold.amounts, Hold.RELEASED, hold.expires_ms, {})
        return await self._settle_or_owe(found, "release", hold)

    async def _extend(self, hold: Hold, ttl: float) -> Hold:
        """Keep a hold live; one that expires in an outage is spent until its commit corrects it."""
        if self._lease.has(hold):
            return self._lease.extend(hold, ttl)
        try:
            return cast(Hold, await self._ask("extend", hold, ttl))
        except OFFLINE:
            return hold

    async def _hold(self, path: str, id: str) -> Hold:
        if self._lease.has(Hold(path, id)):
            return self._lease.hold(path, id)
        return cast(Hold, await self._ask("hold", path, id))

    async def _expire(self) -> int:
        count = self._lease.expire()
        try:
            return count + cast(int, await self._ask("expire"))
        except OFFLINE:
            return count

    async def _close(self) -> None:
        """Settle what is owed and close the ledger upstream; calls in flight count in full.

        Raises why it is out of reach, with nothing lost or closed: closing again tries again.
        """
        async with self._gate:
            self.upstream.retry_now()
            await self._deliver()  # so that there is room for what is in flight
            self._lease.settle_all()
            await self.upstream.close()

    async def _settle_or_owe(self, found: Hold, operation: str, *arguments: Any) -> Hold:
        """Do an operation upstream; out of reach, owe it and return what will be `found`."""
        try:
            return cast(Hold, await self._ask(operation, *arguments))
        except OFFLINE:
            async with self._gate:
                getattr(self.upstream.outbox, operation)(*arguments)
            return found

    async def _ask(self, operation: str, *arguments: Any) -> Any:
        if self.upstream.outbox.entries or not self._lease.is_whole:
            async with self._gate:
                try:
                    await self._deliver()
                except LedgerFullError:  # what frees room has to get through
                    pass
        return await self.upstream.ask(operation, *arguments)

    async def _deliver(self) -> None:
        """Deliver what the ledger is owed; the cap is whole again once that is all."""
        self._lease.settle_expired(self._most - len(self.upstream.outbox.entries))
        await self.upstream.deliver()
        self._lease.refill()
        until = int(self._clock())
        granted = sorted(self._lease.take_granted().items())
        events = [LedgerEvent("grant", path, {"amounts": a, "until": until}) for path, a in granted]
        await note_quietly_awaited(self.upstream.ledger, events)

    def _grant(self, asked: Hold, ttl: float, error: Exception, own_key: bool) -> Hold:
        """Grant a hold, or raise `error`; with its `own_key` the caller cannot ask for it again."""
        is_damaged = LedgerCorruptError in (type(error), type(getattr(error, "cause", None)))
        if is_damaged or self.unsettled >= self._most:
            raise error
        applied = getattr(error, "applied", False)
        in_doubt = applied is None
        try:
            return self._lease.grant(asked, ttl, in_doubt)
        except BudgetExceededError as short:
            if in_doubt and own_key:
                self._lease.undo(asked, ttl)
            text = f"{error}; of the cap, {short.left} {short.axis} are left, not {short.asked}"
            raise LedgerUnavailableError(text, error, applied) from error


def _name(key: str | None) -> str:
    return new_key() if key is None else check_key(key)


class _ThreadsCap(BlockingUpstream, AsyncOfflineCapLedger):
    pass


class OfflineCapLedger(BlockingLedger):
    """An `AsyncOfflineCapLedger` for threads; `ledger` is one that blocks."""

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
        """The number of grants in flight, and of entries in the outbox."""
        return self._capped.unsettled

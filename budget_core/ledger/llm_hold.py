"""What is held in a ledger for one LLM call, from its admission to its settlement."""

import asyncio

from budget_core.ledger.errors import HoldSettledError, UnknownHoldError
from budget_core.ledger.records import Hold
from budget_core.ledger.untold import COMMIT, RELEASE, Entry
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.llm_account import LedgerAccount


class Reservation:
    """What is held for one call, until somebody settles it, once.

    `limit` is the longest answer that it allows, `None` any; `hold` the ledger's.
    """

    def __init__(self, account: "LedgerAccount", hold: Hold, limit: int | None) -> None:
        self.account = account
        self.hold = hold
        self.limit = limit
        self._held = hold.state == Hold.HELD
        self._refreshing: Any = None

    def begin(self) -> None:
        """Keep the hold live from now on, until it is settled; where no loop runs, for its ttl."""
        if not self._held:
            return
        refreshing = self._refresh()
        try:
            self._refreshing = asyncio.create_task(refreshing)
        except RuntimeError:
            refreshing.close()

    async def _refresh(self) -> None:
        account = self.account
        while True:
            await asyncio.sleep(account.ttl / 3)
            try:
                await settle(account.ledger.extend(self.hold, account.ttl))
            except (HoldSettledError, UnknownHoldError):
                return  # a late commit is recorded all the same
            except Exception as error:  # noqa: BLE001 - the call goes on
                account.error = error

    async def settle(self, actual: "dict[str, int]", exact: bool = True) -> None:
        """Record what an answered call used; not `exact`, at least what was held for it."""
        self._calm()
        used = actual if exact else self._most(actual)
        await self.account.tell(self._record(used))

    async def leave(self, actual: "dict[str, int]") -> None:
        """Let the hold stand of a call whose outcome is not known; record more if more is known."""
        self._calm()
        used = self._most(actual)
        if not self._held or used != self.hold.amounts:
            await self.account.tell(self._record(used))

    async def release(self) -> None:
        """Give back what was held for a call that cost nothing."""
        self._calm()
        if self._held:
            await self.account.tell(Entry(RELEASE, self.hold))

    def abandon(self, actual: "dict[str, int] | None" = None) -> None:
        """As `leave`, or as `release` without `actual`, where nothing can be awaited any more.

        What is to be said is said later.
        """
        self._calm()
        untold = self.account.untold
        if actual is None:
            if self._held:
                untold.add(Entry(RELEASE, self.hold))
            return
        used = self._most(actual)
        if not self._held:
            untold.charge_later(self.hold.path, used)
        elif used != self.hold.amounts:
            untold.add(self._record(used))

    def _record(self, used: "dict[str, int]") -> Entry:
        if self._held:
            return Entry(COMMIT, self.hold, used)
        return Entry.charge(self.hold.path, used)

    def _most(self, actual: "dict[str, int]") -> "dict[str, int]":
        most = dict(self.hold.amounts)
        for axis in actual:
            if actual[axis] > most.get(axis, 0):
                most[axis] = actual[axis]
        return most

    def _calm(self) -> None:
        """End what extends the hold; nothing is awaited that a cancellation could break off."""
        task, self._refreshing = self._refreshing, None
        if task is not None:
            try:
                task.cancel()
            except RuntimeError:
                pass  # its loop is closed


class Taking:
    """A reservation that is awaited, and given back where nobody waits for it any more."""

    def __init__(self, account: "LedgerAccount", pending: "Any") -> None:
        self._account = account
        self._pending = pending
        self._done = asyncio.Event()
        self._left = False
        self._hold: Hold | None = None
        self._error: BaseException | None = None

    async def result(self) -> Hold:
        """Return the hold, or raise what the ledger raised."""
        self._task = asyncio.create_task(self._run())
        try:
            await self._done.wait()
        except asyncio.CancelledError:
            self._left = True
            await self._give_back()
            raise
        except GeneratorExit:
            self._left = True
            if self._hold is not None:
                self._account.untold.add(Entry(RELEASE, self._hold))
            raise
        if self._hold is None:
            raise self._error or RuntimeError("the ledger returned no hold")
        return self._hold

    async def _run(self) -> None:
        try:
            self._hold = await self._pending
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        self._done.set()
        if self._left:
            await self._give_back()

    async def _give_back(self) -> None:
        if self._hold is not None:
            await self._account.tell(Entry(RELEASE, self._hold))

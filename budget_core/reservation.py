"""What is held in a ledger for one LLM call, from its admission to its settlement."""

import asyncio

from budget_core.ledger_errors import HoldSettledError, UnknownHoldError
from budget_core.ledger_records import Hold
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.ledger_call import LedgerAccount
    from budget_core.shapes import *

COMMIT = "commit"
RELEASE = "release"
CHARGE = "charge"
LATER = "later"  # a charge that was not tried yet: others may be added to it


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
        """Keep the hold live from now on, until it is settled."""
        if self._held:
            self._refreshing = asyncio.create_task(self._refresh())

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
        await self._calm()
        used = actual if exact else self._most(actual)
        await self.account.tell(COMMIT if self._held else CHARGE, self.hold, used)

    async def leave(self, actual: "dict[str, int]") -> None:
        """Let the hold stand of a call whose outcome is not known; record more if more is known."""
        await self._calm()
        used = self._most(actual)
        if not self._held:
            await self.account.tell(CHARGE, self.hold, used)
        elif used != self.hold.amounts:
            await self.account.tell(COMMIT, self.hold, used)

    async def release(self) -> None:
        """Give back what was held for a call that cost nothing."""
        await self._calm()
        if self._held:
            await self.account.tell(RELEASE, self.hold)

    def abandon(self, actual: "dict[str, int]") -> None:
        """As `leave`, where nothing can be awaited any more: what is to be said is said later."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        used = self._most(actual)
        if not self._held:
            self.account.tell_later(used)
        elif used != self.hold.amounts:
            self.account.untold.append((COMMIT, self.hold, used))

    def _most(self, actual: "dict[str, int]") -> "dict[str, int]":
        most = dict(self.hold.amounts)
        for axis in actual:
            most[axis] = max(most.get(axis, 0), actual[axis])
        return most

    async def _calm(self) -> None:
        """End what extends the hold."""
        task, self._refreshing = self._refreshing, None
        if task is None:
            return
        before = _cancellations()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if _cancellations() > before:
                raise


def _cancellations() -> int:
    """Return how often this task was cancelled, 0 where the runtime does not tell."""
    count = getattr(asyncio.current_task(), "cancelling", None)
    return int(count()) if count else 0

"""What is held in a ledger for one LLM call, from its admission to its settlement."""

import asyncio

from budget_core.ledger.errors import HoldSettledError, UnknownHoldError
from budget_core.ledger.outbox import CHARGE, COMMIT, RELEASE, Entry, new_key
from budget_core.ledger.records import Hold
from budget_core.provider import maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from budget_core.ledger.outbox import Outbox

    class Account(Protocol):
        """What a hold needs of the account that took it; a `LedgerAccount` has it."""

        ledger: Any
        ttl: float
        outbox: Outbox
        error: Exception | None

        async def deliver(self, entry: Entry) -> None:
            """Deliver an entry now, or keep it."""

        def learn(self, held: "LlmHold", tokens: int) -> None:
            """Note what an answered call used."""


class LlmHold:
    """What is held for one LLM call. Exactly one of its methods but `begin` ends it, once.

    `limit` is the longest answer that it allows, in tokens; `None` allows any. `hold` is the
    ledger's; a released one stands for a call that is made without a hold and charged later.
    `amounts` are the most that the call can use: more than is held where others are held for it.
    """

    def __init__(self, account: "Account", hold: Hold, limit: int | None, model: str = "") -> None:
        self.account = account
        self.model = model
        self.hold = hold
        self.amounts = hold.amounts
        self.limit = limit
        self._held = hold.state == Hold.HELD
        self._extending: Any = None

    def begin(self) -> None:
        """Extend the hold from now on until it is settled; without an event loop it has its ttl."""
        if not self._held:
            return
        extending = self._extend()
        try:
            self._extending = asyncio.create_task(extending)
        except RuntimeError:
            extending.close()

    async def _extend(self) -> None:
        account = self.account
        while True:
            await asyncio.sleep(account.ttl / 3)
            try:
                await maybe_await(account.ledger.extend(self.hold, account.ttl))
            except (HoldSettledError, UnknownHoldError):
                return  # a late commit is recorded all the same
            except Exception as error:  # noqa: BLE001 - the call continues
                account.error = error

    async def commit(self, actual: "dict[str, int]", exact: bool = True) -> None:
        """Record what an answered call used; if not `exact`, at least what was held for it."""
        self._stop_extending()
        if self._held:
            self.account.learn(self, actual.get("tokens", 0))
        await self.account.deliver(self._record(actual if exact else self._at_least(actual)))

    async def keep(self, actual: "dict[str, int]") -> None:
        """Leave the hold of a call whose outcome is unknown to expire; record more if it is known.

        A hold that expires counts as spent.
        """
        self._stop_extending()
        used = self._at_least(actual)
        if not self._held or used != self.hold.amounts:
            await self.account.deliver(self._record(used))

    async def release(self) -> None:
        """Give back the hold of a call that cost nothing."""
        self._stop_extending()
        if self._held:
            await self.account.deliver(Entry(RELEASE, self.hold))

    def abandon(self, actual: "dict[str, int] | None" = None) -> None:
        """Do as `keep`, or without `actual` as `release`, where nothing can be awaited now.

        The ledger gets it with the next delivery.
        """
        self._stop_extending()
        outbox = self.account.outbox
        if actual is None:
            if self._held:
                outbox.release(self.hold)
            return
        used = self._at_least(actual)
        if not self._held:
            outbox.charge(self.hold.path, used)
        elif used != self.hold.amounts:
            outbox.commit(self.hold, used)

    def _record(self, used: "dict[str, int]") -> Entry:
        if self._held:
            return Entry(COMMIT, self.hold, used)
        return Entry(CHARGE, Hold(self.hold.path, new_key()), used)

    def _at_least(self, actual: "dict[str, int]") -> "dict[str, int]":
        most = dict(self.amounts)
        for axis in actual:
            if actual[axis] > most.get(axis, 0):
                most[axis] = actual[axis]
        return most

    def _stop_extending(self) -> None:
        """Cancel the extension without awaiting it: a cancellation could come in between."""
        task, self._extending = self._extending, None
        if task is not None:
            try:
                task.cancel()
            except RuntimeError:
                pass  # its loop is closed

"""What is held for one LLM call, and how it ends: committed, charged or released."""

import asyncio

from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import HoldSettledError, UnknownHoldError
from budget_core.ledger.hold import Hold
from budget_core.ledger.outbox import CHARGE, COMMIT, RELEASE, Entry, new_key
from budget_core.log import log
from budget_core.provider import maybe_await
from budget_core.usage import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import CallPrice
    from budget_core.ledger._types import HoldAccount
    from budget_core.settlement import Settlement


class LlmHold:
    """What is held for one LLM call. It is settled, released or abandoned once.

    `model` answers at `price`, if those are known. `limit` is the longest answer that it allows, in
    tokens; `None` allows any. `hold` is the ledger's; a released one stands for a call that is made
    without a hold and charged later. `amounts` are the most that the call can use: less than this
    hold has, if that has the reserve of a run's final call as well. `prompt` is the size of its
    prompt, and `lowered` whether its limit is below the one that was asked for. Once the call is
    settled, `charged` is what it is charged, by axis, `priced` whether that is all of its money,
    and `cut_short` whether its answer ended at a limit that a budget lowered.
    """

    charged: "dict[str, int] | None" = None
    priced = True
    lowered = cut_short = False

    def __init__(
        self,
        account: "HoldAccount",
        hold: Hold,
        limit: int | None,
        model: str = "",
        price: "CallPrice | None" = None,
    ) -> None:
        self.account = account
        self.model = model
        self.price = price
        self.hold = hold
        self.amounts = hold.amounts
        self.prompt = 0
        self.limit = limit
        self._held = hold.state != Hold.RELEASED
        self._extending: Any = None

    def compare(self, asked: int | None) -> None:
        """Note whether the limit is below what a caller asked for, else its account's limit."""
        asked = self.account.max_tokens if asked is None else asked
        self.lowered = self.limit is not None and (asked is None or self.limit < asked)

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

    def charge(self, outcome: "Settlement", estimates: bool = False) -> "dict[str, int] | None":
        """Return the charge of a call by axis, from its outcome; `None` if it cost nothing.

        An answered call is charged what it used. Where that was not measured, and `estimates` do
        not count as measured, it is charged at least what was held, as is one that broke off.
        """
        if outcome.billed:
            used, is_exact = self._used(outcome, estimates)
            if self._held and not outcome.failed:
                self.account.learn(self, used.get("tokens", 0))
            self.charged = used if is_exact else self._at_least(used)
            if getattr(outcome.response, "finish_reason", None) == "length":
                self._note_cut(outcome.response)
        return self.charged

    def _note_cut(self, response: "Any") -> None:
        """Mark and log an answer that ended at its limit if this budget lowered that."""
        by = getattr(response, "cut_short_by", None)
        if by is None and self.lowered:
            by = self.account.path
            text = f"an answer was cut short at the {self.limit} tokens that {by} could afford"
            log("warning", text)
            try:
                response.cut_short_by = by
            except AttributeError:
                pass  # another provider's, which takes no mark
        self.cut_short = by is not None

    async def settle(self, outcome: "Settlement", estimates: bool = False) -> None:
        """Commit the charge of a call; where it cost nothing, release the hold.

        Nothing is awaited for a call whose coroutine is being closed.
        """
        charged = self.charge(outcome, estimates)
        if charged is not None:
            self.account.note_charge(self)
            self.account.process.charged(self, outcome)
        if outcome.closing:
            self.abandon(charged)
        elif charged is None:
            await self.release()
        else:
            await self.commit(charged)

    def _used(self, outcome: "Settlement", estimates: bool) -> "tuple[dict[str, int], bool]":
        """Return the usage of a call by axis, as far as it is known, and whether that is exact."""
        self.priced = False
        try:
            nano_usd, self.priced = outcome.cost(self.price)
            usage = outcome.usage
            used = {"tokens": min(MOST, usage.total), "calls": 1}
            if nano_usd is not None:
                least = 0 if self.priced else self.amounts.get("nano_usd", 0)
                used["nano_usd"] = min(MOST, max(nano_usd, least))
            is_known = estimates or usage.status == Usage.MEASURED
            return used, is_known and not outcome.failed
        except Exception:  # noqa: BLE001 - a call that cannot be counted costs what was held
            return {"calls": 1}, False

    async def commit(self, actual: "dict[str, int]") -> None:
        """Record the call's usage in the place of the hold."""
        self.stop_extending()
        if self._held:
            entry = Entry(COMMIT, self.hold, actual)
        else:
            entry = Entry(CHARGE, Hold(self.hold.path, new_key()), actual)
        await self.account.deliver(entry)

    async def release(self) -> None:
        """Give back the hold of a call that cost nothing."""
        self.stop_extending()
        if self._held:
            await self.account.deliver(Entry(RELEASE, self.hold))

    def abandon(self, actual: "dict[str, int] | None" = None) -> None:
        """Do as `commit`, or without `actual` as `release`, where nothing can be awaited now.

        A running event loop delivers it soon; else the ledger gets it with the next delivery.
        """
        self.stop_extending()
        outbox = self.account.outbox
        if actual is not None and self._held:
            outbox.commit(self.hold, actual)
        elif actual is not None:
            outbox.charge(self.hold.path, actual)
        elif self._held:
            outbox.release(self.hold)
        self.account.deliver_soon()

    def _at_least(self, actual: "dict[str, int]") -> "dict[str, int]":
        most = dict(self.amounts)
        for axis in actual:
            if actual[axis] > most.get(axis, 0):
                most[axis] = actual[axis]
        return most

    def stop_extending(self) -> None:
        """Cancel the extension without awaiting it: a cancellation could come in between."""
        self.account.in_flight.discard(self)
        task, self._extending = self._extending, None
        if task is not None:
            try:
                task.cancel()
            except RuntimeError:
                pass  # its loop is closed

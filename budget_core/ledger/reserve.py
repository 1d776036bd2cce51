"""Hold what a run's final call needs on a shared account, until the run ends."""

import sys

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.llm_account import TRIES, amounts, fitting
from budget_core.ledger.llm_hold import LlmHold
from budget_core.ledger.standing import SHORTEST, FinalCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.llm_account import LedgerAccount
    from budget_core.ledger.standing import Standing
    from budget_core.prices import Price


class Reserve(FinalCall):
    """What one run holds on its account for its final call, so that no neighbour can take it.

    It is taken with the first call, grows with the prompts, and is given back at the run's end.
    `held` is how much that is, by axis; `begun` whether a call of the run was admitted.
    """

    def __init__(self, account: "LedgerAccount", standing: "Standing") -> None:
        super().__init__()
        self.account = account
        self.standing = standing
        self.held: dict[str, int] = {}
        self.begun = False
        self._holds: list[LlmHold] = []

    async def beside(
        self, model: str, prompt: int, limit: int | None, price: "Price | None"
    ) -> LlmHold:
        """Return the hold of a call, and hold what a final call after it needs.

        Raises what `LedgerAccount.reserve` does; `BudgetExceededError` if both do not fit. Where
        the account's calls wait for what others hold, a run holds nothing while its first call
        waits: runs that waited for one another's reserve would wait in vain. What is not free then
        is held with the next call.
        """
        account, limit = self.account, self._limit(limit)
        needed = self.needs(prompt, limit, price)
        if not account.wait_ms:
            await self._take(needed)
            return await account.reserve(model, prompt, limit, price)
        longest, lacking = self.standing.longest(prompt, limit, price, needed)
        longest = longest or min(limit, SHORTEST)
        try:
            if lacking is not None or not account.others_wait():
                await self._take(needed)
                return await account.take(model, prompt, longest, price)
        except BudgetExceededError as error:
            if lacking is not None or not error.is_held:
                raise
        if not self.begun:
            await self.give_back()
        taken = await account.reserve(model, prompt, longest, price)
        try:
            await self._take(needed)
        except BudgetExceededError:
            pass
        return taken

    async def claim(self, prompt: int, limit: int | None, price: "Price | None") -> LlmHold:
        """Return the hold of the final call: the reserve, and what it needs beyond that.

        Its answer is cut to what there is. Raises `BudgetExceededError` if there is no room for it.
        """
        limit = self._limit(limit)
        tries = TRIES
        while True:
            needed = amounts(prompt, limit, price)
            try:
                await self._take(needed)
                break
            except BudgetExceededError as error:
                left = error.left + self.held.get(error.axis, 0)
                limit = min(limit - 1, fitting(error.axis, left, prompt, price))
                if limit < 1 or not tries:
                    raise
                tries -= 1
        hold = self._holds.pop(0)
        hold.limit = limit
        hold.amounts = needed
        return hold

    def _limit(self, limit: int | None) -> int:
        return self.account.max_tokens if limit is None else limit

    async def _take(self, needed: "dict[str, int]") -> None:
        held = self.held
        short = {axis: needed[axis] - held.get(axis, 0) for axis in needed}
        more = {axis: short[axis] for axis in short if short[axis] > 0}
        if not more:
            return
        holds = self._holds
        hold = LlmHold(self.account, await self.account.hold(dict(more)), None)
        if holds is not self._holds:  # the run was left meanwhile
            hold.abandon()
            return
        hold.begin()
        holds.append(hold)
        for axis in more:
            held[axis] = held.get(axis, 0) + more[axis]

    async def give_back(self) -> None:
        """Release what is still held."""
        if is_closing():
            self.abandon()
        holds, self._holds, self.held = self._holds, [], {}
        for hold in holds:
            await hold.release()

    def abandon(self) -> None:
        """Have what is still held released with the next delivery to the ledger."""
        holds, self._holds, self.held = self._holds, [], {}
        for hold in holds:
            hold.abandon()


def is_closing() -> bool:
    """Tell whether a coroutine is being closed; always `False` on a runtime that does not tell."""
    handled: Any = getattr(sys, "exc_info", None)
    return handled is not None and handled()[0] is GeneratorExit

"""Have a run's LLM calls draw on an account of a ledger as well as on the run's envelope."""

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.stop import StopReason, in_words
from budget_core.ledger.answer_limit import ANSWER, amounts, fitting
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.llm_account import TRIES, LedgerAccount, UnpricedError
from budget_core.ledger.llm_hold import LlmHold
from budget_core.ledger.standing import SHORTEST, FinalCall, Standing
from budget_core.notices import show_on
from budget_core.settlement import is_closing
from budget_core.usage_estimate import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import AdmittedCall, Messages, Prompt
    from budget_core.ledger._types import AnyLedger
    from budget_core.prices import Price
    from budget_core.settlement import Settlement

_KINDS = {"nano_usd": StopReason.COST_LIMIT, "calls": StopReason.TURN_LIMIT}


def account_for(
    above: "RunAccount | None",
    ledger: "AnyLedger | None" = None,
    account: str | None = None,
    *options: "Any",
) -> "RunAccount":
    """Return the account that an envelope's calls draw on, `above` being its parent's, if any.

    `options` are the others of `LedgerAccount`; what is `None` is as above. Raises `ValueError` for
    an account that is not the one above or below it: what a child uses, its parent uses too.
    """
    if above is None:
        return RunAccount(ledger, account, *options)
    if ledger is not None and ledger is not above.ledger:
        raise ValueError(f"ledger must be the one that {above.path!r} above is in")
    account = account or above.path
    if account != above.path and not account.startswith(above.path + "/"):
        raise ValueError(f"account must be {above.path} or one below it, not {account!r}")
    own = [above.options[at] if options[at] is None else options[at] for at in range(len(options))]
    return RunAccount(above.ledger, account, *own)


class RunAccount(LedgerAccount):
    """The account that the calls of a run draw on, and those of its children.

    `standing` is how much of it is used.
    """

    def __init__(self, ledger: "Any", path: "Any", *options: "Any") -> None:
        super().__init__(ledger, path, *options)
        self.options = options
        self.standing = Standing(self)

    def reserve_for(self, envelope: "Any") -> "Reserve | None":
        """Return the reserve of a run's final call, `None` where its budget keeps nothing."""
        return None if envelope.budget.last_call is None else Reserve(self, self.standing)

    async def admit(
        self,
        call: "AdmittedCall",
        request: "Prompt",
        said: "Messages",
        prompt: int,
        final: "Reserve | None",
        last: bool,
    ) -> StopReason | None:
        """Hold what a call may use, cut to what is left, or return why it is not to be made.

        Then the envelope gets back what it had held for the call. `prompt` is its size in tokens,
        0 if it was not counted. The final call has the `final` reserve; any other is made only if
        that can be held beside it.
        """
        hold = call.hold
        prompt = prompt or estimate_tokens(request.messages + said, request.tools)
        over = False
        reason: StopReason | None

        async def reserve() -> None:
            limit = self.standing.limit_of(hold.model, prompt, hold.limit, hold.price)
            asked = (prompt, limit, hold.price)
            if final is None:
                taken = await self.reserve(hold.model, *asked)
            elif last:
                taken = await final.claim(*asked)
            else:
                taken = await final.beside(hold.model, *asked)
            if over:
                taken.abandon()
            else:
                call.ledger = taken

        try:
            self.refuse_twice(call.inner)
            await call_within(hold.envelope, reserve)
            call.ledger.compare(hold.limit)
            hold.limit = call.ledger.limit
            call.ledger.begin()
            if final is not None:
                final.begun = True
            return None
        except CutShortError as error:
            reason = error.reason
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the budget holds
            reason = self._why_not(error)
            if final is not None and not final.begun and isinstance(error, BudgetExceededError):
                reason.reason += "; not begun: a call and its final answer do not fit"
        except BaseException as error:  # the run is cancelled or left behind, its model not asked
            held, call.ledger = call.ledger, None
            if held is not None and isinstance(error, GeneratorExit):
                held.abandon()
            elif held is not None:
                await held.release()
            raise
        finally:
            if call.ledger is None:
                over = True
                with hold.envelope.lock:
                    hold.envelope.turns.add(-1)
                hold.settle(0, 0)
        return reason

    def _why_not(self, error: Exception) -> StopReason:
        if isinstance(error, BudgetExceededError):
            show = show_on(error.axis)[0]
            asked = show(error.asked or 0)
            text = f"per {error.window}, {show(error.held)} held, {asked} asked{error.when}"
            kind = _KINDS.get(error.axis, StopReason.TOKEN_BUDGET)
            used = error.spent + error.held
            return StopReason(kind, text, error.axis, used, error.limit, 0, error.scope, error)
        if isinstance(error, UnpricedError):
            kind = StopReason.COST_LIMIT
            return StopReason(kind, str(error), scope=error.scope, error=error)
        self.error = error
        return StopReason(StopReason.FAILED, in_words(error), scope=self.path, error=error)

    async def settle(self, held: "LlmHold", outcome: "Settlement") -> None:
        """Charge the reported usage of a call, or at least its hold."""
        charged = held.charge(outcome)
        if charged is not None:
            self.standing.add(charged)
        await held.settle(outcome.closing)


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
        account = self.account
        needed = self.needs(prompt, limit, price)
        if not account.wait_ms:
            await self._take(needed)
            return await account.reserve(model, prompt, limit, price)
        longest, lacking = self.standing.longest(prompt, limit, price, needed)
        if lacking is not None:
            longest = SHORTEST if limit is None else min(limit, SHORTEST)
        try:
            if lacking is not None or not account.others_wait():
                await self._take(needed)
                return await account.take(model, prompt, longest, price)
        except BudgetExceededError as error:
            if lacking is not None or not (error.is_held or longest is None):
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
        limit = ANSWER if limit is None else limit
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

"""A run's LLM calls on an account of a ledger, beside the run's envelope."""

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.stop import StoppedError, StopReason, in_words
from budget_core.ledger.answer_limit import ANSWER, amounts, fitting
from budget_core.ledger.cached_balance import SHORTEST, FinalCall
from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import BudgetExceededError, UnknownHoldError
from budget_core.ledger.hold import Hold
from budget_core.ledger.llm_account import TRIES, LedgerAccount, UnpricedError
from budget_core.ledger.llm_hold import LlmHold
from budget_core.ledger.outbox import CHARGE, FOR_GOOD, Entry, new_key
from budget_core.notices import show_on
from budget_core.settlement import is_closing
from budget_core.usage_estimate import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from budget_core._types import CallPrice, RunCall
    from budget_core.ledger._types import AnyLedger
    from budget_core.ledger.cached_balance import CachedBalance

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

    `cached_balance` says how much of it is used.
    """

    def __init__(self, ledger: "Any", path: "Any", *options: "Any") -> None:
        super().__init__(ledger, path, *options)
        self.options = options

    def reserve_for(self, envelope: "Any") -> "Reserve | None":
        """Return the reserve of a run's final call, `None` where its budget keeps nothing."""
        return None if envelope.budget.last_call is None else Reserve(self, self.cached_balance)

    async def hold(self, call: "RunCall") -> LlmHold:
        """Take a hold for a call; its answer is cut to what is left.

        The final call has its run's reserve; any other is made only if that can be held beside it.
        Raises `StoppedError` with the reason why the call is not to be made.
        """
        final = call.reserve
        prompt = call.prompt or estimate_tokens(call.messages, call.tools)
        taken: Any = None
        reason: StopReason | None = None
        over = False

        async def reserve() -> None:
            nonlocal taken
            limit = self.cached_balance.limit_of(call.model, prompt, call.limit, call.price)
            asked = (prompt, limit, call.price)
            if final is None:
                found = await self.reserve(call.model, *asked)
            elif call.is_last:
                found = await final.claim(call.model, *asked)
            else:
                found = await final.beside(call.model, *asked)
            if over:
                found.abandon()
            else:
                taken = found

        try:
            self.refuse_twice(call.inner)
            await call_within(call.envelope, reserve)
        except CutShortError as error:
            reason = error.reason
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the budget holds
            if final is None or final.begun or not isinstance(error, BudgetExceededError):
                reason = self._why_not(error)
            else:
                reason = self._why_not(final.refused or error)
                reason.reason += "; not begun: a call and its final answer do not fit"
        except BaseException as error:  # the run is cancelled or left behind, its model not asked
            over = True
            if taken is not None and isinstance(error, GeneratorExit):
                taken.abandon()
            elif taken is not None:
                await taken.release()
            raise
        if reason is not None:
            over = True
            if taken is not None:
                await taken.release()
            raise StoppedError(reason)
        taken.compare(call.limit)
        call.limit, call.ledger = taken.limit, taken
        taken.begin()
        if final is not None:
            final.begun = True
        held: LlmHold = taken
        return held

    def _why_not(self, error: Exception) -> StopReason:
        if isinstance(error, BudgetExceededError):
            from budget_core.ledger.window_words import window_in_words

            window, show = window_in_words(error.window), show_on(error.axis)[0]
            asked = show(error.asked or 0)
            text = f"per {window}, {show(error.held)} held, {asked} asked{error.when}"
            kind = _KINDS.get(error.axis, StopReason.TOKEN_BUDGET)
            used = error.spent + error.held
            return StopReason(kind, text, error.axis, used, error.limit, 0, error.scope, error)
        if isinstance(error, UnpricedError):
            kind = StopReason.COST_LIMIT
            return StopReason(kind, str(error), scope=error.scope, error=error)
        self.error = error
        return StopReason(StopReason.FAILED, in_words(error), scope=self.path, error=error)


class RunHold(LlmHold):
    """What is held for one call of a run and, in one with it, for the run's final call."""

    final: "Any" = None

    async def commit(self, actual: "dict[str, int]") -> None:
        """Record the call's usage, and keep the rest for the final call."""
        await self.final.settle(self, dict(nothing(self.hold), **actual))

    async def release(self) -> None:
        """Give back what a call held that cost nothing, and keep the rest for the final call."""
        await self.final.settle(self, None)

    def abandon(self, actual: "dict[str, int] | None" = None) -> None:
        """Do as `LlmHold` where nothing can be awaited now: nothing is kept."""
        super().abandon(None if actual is None else dict(nothing(self.hold), **actual))


class Reserve(FinalCall):
    """What one run holds on its account for its final call, so that no neighbour can take it.

    It is taken in one hold with the first call, grows with the prompts, and stays when a call is
    settled until the next call's hold has it too. It is given back at the run's end.

    `held` is how much that is, by axis; `begun` whether a call of the run was admitted, `over`
    whether none will follow the one that is made. `refused` is the last refusal of a call and its
    reserve together.
    """

    KIND = RunHold
    refused: "BudgetExceededError | None" = None

    def __init__(self, account: "LedgerAccount", balance: "CachedBalance") -> None:
        super().__init__()
        self.account = account
        self.cached_balance = balance
        self.held: dict[str, int] = {}
        self.begun = self.over = False
        self._wanted: dict[str, int] = {}
        self._hold: LlmHold | None = None  # `None` while a call has it
        self._owed: dict[str, int] | None = None  # what a call used of that hold; settled with it
        self._key: str | None = None  # of a settlement that may have been applied
        self._generation = 0  # raised when it is given back

    async def beside(
        self, model: str, prompt: int, limit: int | None, price: "CallPrice | None"
    ) -> LlmHold:
        """Return the hold of a call, with what a final call after it needs.

        Raises what `LedgerAccount.reserve` does; `BudgetExceededError` if both do not fit. A call
        that waits for what others hold is held apart: runs that waited for one another's reserve
        would wait in vain. What is not free for the final call then is held with the next call.
        """
        account = self.account
        needed = self.needs(prompt, limit, price)
        self._wanted = self._at_least(needed)
        if not account.wait_ms:
            return await account.reserve(model, prompt, limit, price, final=self)
        longest, lacking = self.cached_balance.longest(prompt, limit, price, needed)
        if lacking is not None:
            longest = SHORTEST if limit is None else min(limit, SHORTEST)
        try:
            if lacking is not None or not account.others_wait():
                return await account.take(model, prompt, longest, price, final=self)
        except BudgetExceededError as error:
            if lacking is not None or not (error.is_held or longest is None):
                raise
        taken = await account.reserve(model, prompt, longest, price)
        try:
            await self._take(needed)
        except BudgetExceededError:
            pass
        except BaseException:
            taken.abandon()
            raise
        return taken

    async def claim(
        self, model: str, prompt: int, limit: int | None, price: "CallPrice | None"
    ) -> LlmHold:
        """Return the hold of the final call: the reserve, and what it needs beyond that.

        Its answer is cut to what there is. A call within the reserve is made also where the ledger
        fails, and is charged. Raises `BudgetExceededError` if there is no room for it.
        """
        limit = ANSWER if limit is None else limit
        tries = TRIES
        while True:
            needed = amounts(prompt, limit, price)
            try:
                await self._take(needed)
                break
            except BudgetExceededError as error:
                left = max(error.left, self.held.get(error.axis, 0))
                limit = min(limit - 1, fitting(error.axis, left, prompt, price))
                if limit < 1 or not tries:
                    raise
                tries -= 1
            except Exception:  # whatever a ledger raises, what it holds stays held
                if self._hold is None or self._at_least(needed) != self.held:
                    raise
                return self.account.unheld(prompt, limit, price)
        kept: Any = self._hold
        self._hold = None
        kept.stop_extending()
        taken = RunHold(self.account, kept.hold, limit, model, price)
        taken.prompt = prompt
        self.join(taken, needed)
        return taken

    def join(self, taken: RunHold, asked: "Mapping[str, int | None]") -> None:
        """Have a call's hold, which has the reserve too, know what part is its own."""
        taken.amounts = {axis: asked[axis] or 0 for axis in asked if asked[axis] is not None}
        taken.final = self

    async def hold_amounts(
        self, asked: "Mapping[str, int | None]", key: str | None = None, wait_ms: int = 0
    ) -> Hold:
        """Take one hold for a call and the reserve. A refusal has the figures of the call."""
        kept, both = self._wanted, dict(asked)
        for axis in kept:
            own = both.get(axis, 0)
            both[axis] = None if own is None else min(MOST, own + kept[axis])
        try:
            hold = await self._renew(both)
        except BudgetExceededError as error:
            self.refused = error
            more = kept.get(error.axis, 0)
            held = max(error.held, min(error.held + more, error.limit - error.spent))
            raise error.but(asked.get(error.axis, error.asked), error.spent, held)
        self.held = kept
        return hold

    async def _take(self, needed: "dict[str, int]") -> None:
        """Have a hold of at least that, apart from a call's."""
        wanted = self._at_least(needed)
        is_settled = self._owed is None and self._key is None
        if self._hold is not None and is_settled and wanted == self.held:
            return
        generation = self._generation
        self._keep(await self._renew(wanted), wanted, generation)

    def _at_least(self, needed: "dict[str, int]") -> "dict[str, int]":
        wanted = dict(self.held)
        for axis in needed:
            wanted[axis] = max(needed[axis], wanted.get(axis, 0))
        return wanted

    async def _renew(self, asked: "Mapping[str, int | None]") -> Hold:
        """Return a hold in the place of the reserve's, with which what is owed is settled."""
        if self._key is not None:
            await self._settle()
        former = self._hold
        if former is None:
            return await self.account.hold_amounts(asked)
        if self._key is not None:
            error: Any = self.account.error
            raise error
        try:
            hold = await self.account.renew(former.hold, self._owed or nothing(former.hold), asked)
        except UnknownHoldError:  # the ledger has lost it
            await self.give_back()
            return await self.account.hold_amounts(asked)
        except BudgetExceededError:
            raise
        except BaseException:  # it may be committed by now
            self._owed = self._owed or nothing(former.hold)
            raise
        former.stop_extending()
        self._hold = self._owed = None
        return hold

    async def settle(self, call: RunHold, actual: "dict[str, int] | None") -> None:
        """Settle a call with what it used of its hold, `None` for nothing, and keep the reserve."""
        self._hold, self._owed = call, actual
        if self.over:
            await self.give_back()
        else:
            await self._settle()

    async def _settle(self) -> None:
        """Commit the usage that is owed, and keep the reserve.

        If that fails, it is done with the next call.
        """
        account, former, generation = self.account, self._hold, self._generation
        if former is None:
            return
        in_doubt = self._key is not None
        try:
            if not in_doubt and getattr(type(account.ledger), "IS_SHARED", True):
                self._key = new_key()  # in memory no answer is lost
            used = self._owed or nothing(former.hold)
            try:
                hold = await account.renew(former.hold, used, self.held, self._key)
            except BudgetExceededError:  # the call used some of the reserve, or more than all
                hold = await self._renew_within(former.hold, used)
        except (BudgetExceededError, UnknownHoldError) + FOR_GOOD:
            if not in_doubt:
                self._key = None
            await self.give_back()
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, it stays owed
            account.error = error
            if not in_doubt and getattr(error, "applied", False) is not None:
                self._key = None
        except BaseException:  # the run is cancelled
            self.abandon()
            raise
        else:
            self._key = self._owed = None
            former.stop_extending()
            self._keep(hold, self.held, generation)

    async def _renew_within(self, hold: Hold, used: "dict[str, int]") -> Hold:
        """Keep the reserve; commit what is within the call's part, and charge the rest."""
        rest, excess = dict(used), {}
        for axis in used:
            own = max(0, hold.amounts.get(axis, 0) - self.held.get(axis, 0))
            if used[axis] > own:
                rest[axis], excess[axis] = own, used[axis] - own
        account, entry = self.account, Entry(CHARGE, Hold(hold.path, new_key()), excess)
        entry.sending = True  # not before the renewal, which would be refused then
        if excess:
            account.outbox.add(entry)
        self._owed = rest
        try:
            return await account.renew(hold, rest, self.held, self._key)
        finally:
            entry.sending = False
            await account.flush()

    def _keep(self, hold: Hold, amounts: "dict[str, int]", generation: int) -> None:
        """Hold the reserve, unless the run was left meanwhile."""
        kept = LlmHold(self.account, hold, None)
        if generation != self._generation:
            kept.abandon()
            return
        self._hold, self.held = kept, amounts
        kept.begin()

    async def give_back(self) -> None:
        """Settle the usage that is owed, and release the reserve."""
        if is_closing():
            self.abandon()
        hold, owed = self._leave()
        if hold is not None and owed is not None:
            await LlmHold.commit(hold, owed)
        elif hold is not None:
            await LlmHold.release(hold)

    def abandon(self) -> None:
        """Do as `give_back` with the next delivery to the ledger."""
        hold, owed = self._leave()
        if hold is not None:
            LlmHold.abandon(hold, owed)

    def _leave(self) -> "tuple[LlmHold | None, dict[str, int] | None]":
        hold, owed, key = self._hold, self._owed, self._key
        if hold is not None and key is not None:
            undone = Hold(hold.hold.path, key, self.held)
            self.account.outbox.redeem(undone, self.account.ttl, dict.fromkeys(self.held, 0))
        self._hold = self._owed = self._key = None
        self.held = {}
        self._generation += 1
        return hold, owed


def nothing(hold: Hold) -> "dict[str, int]":
    """Return the usage of a hold of which nothing was used."""
    return dict.fromkeys(hold.amounts, 0)

"""Have a run's LLM calls draw on an account of a ledger as well as on the run's envelope."""

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.stop import StopReason, in_words
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError, used_by
from budget_core.ledger.reserve import Reserve, is_closing
from budget_core.ledger.standing import Standing
from budget_core.notices import show_on
from budget_core.usage import Usage
from budget_core.usage_estimate import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import AdmittedCall, Messages, Prompt
    from budget_core.ledger._types import AnyLedger
    from budget_core.ledger.llm_hold import LlmHold

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

    def reserve_for(self, envelope: "Any") -> Reserve | None:
        """Return the reserve of a run's final call, `None` where its budget keeps nothing."""
        return None if envelope.budget.last_call is None else Reserve(self, self.standing)

    async def admit(
        self,
        call: "AdmittedCall",
        request: "Prompt",
        said: "Messages",
        prompt: int,
        final: Reserve | None,
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
            asked = (prompt, hold.limit, hold.price)
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

    async def settle(self, call: "AdmittedCall", held: "LlmHold") -> None:
        """Record what a call used: what was reported, or at least what was held for it."""
        least = 0 if call.priced else held.amounts.get("nano_usd", 0)
        used = used_by(call.usage.total, call.nano_usd, least)
        if call.billed:
            self.standing.add(used)
        if is_closing():  # nothing can be awaited now
            held.abandon(used)
        elif not call.billed or getattr(call.response, "cut_off_by", None):
            await held.release()
        elif call.response is None:
            await held.keep(used)
        else:
            await held.commit(used, call.usage.status == Usage.MEASURED)

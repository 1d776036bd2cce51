"""The accounts that requests draw on, and how each is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.hold import Balance
from budget_core.provider import maybe_await
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.attempt import Terms
from budget_cpython.proxy.body_helper import BodyHelper, HelpedBody
from budget_cpython.proxy.recorder import RecordedCall
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.wall_clock import WALL

_OF_EACH_CALL = ("calls", "tokens")


@dataclass(frozen=True)
class Rules:
    """The rules that keep the calls of one account within its budget.

    `accounts` are those that each call draws on, the outermost first. With `notices` the model
    reads of limits that are near, and loses tools; else messages and tools stay as they are.
    `strict` refuses requests that are not model calls of a known format.
    """

    accounts: Sequence[BudgetAccount]
    notices: bool = False
    strict: bool = False


class ProxyAccount:
    """One account's rules, with the record of what its calls used."""

    def __init__(self, rules: Rules, record: UsageByModel, helper: BodyHelper) -> None:
        self.strict = rules.strict
        self._rules = rules
        self._record = record
        self._body = partial(HelpedBody, helper, not rules.notices)

    def terms(self) -> Terms:
        """Return the accounts of one call; its observer records the call."""
        rules = self._rules
        observer = RecordedCall(self._record)
        return Terms(rules.accounts, observer, as_asked=not rules.notices, body=self._body)

    async def refuse_spent(self) -> None:
        """Raise `BudgetExceededError` if no model call can fit: calls or tokens are spent.

        Money is not asked for: some models are free. Raises what the ledgers raise, too.
        """
        strict = [account for account in self._rules.accounts if account.is_strict]
        for one in [account.in_ledger(False) for account in strict]:
            for row in await maybe_await(one.ledger.balance(one.path)):
                # a limit of 0 may be what a service shows of an account above its key's
                if row.axis in _OF_EACH_CALL and row.limit and row.spent >= row.limit:
                    raise _spent(row)


def _spent(row: Balance) -> BudgetExceededError:
    return BudgetExceededError(
        row.account,
        row.axis,
        row.window,
        1,  # the least that a call uses
        row.limit or 0,
        row.spent,
        row.held,
        row.resets_at,
        int(WALL()),
    )

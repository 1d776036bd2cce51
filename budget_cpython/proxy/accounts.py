"""The accounts that requests draw on, and how each is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.records import Balance
from budget_core.provider import maybe_await
from budget_cpython.adapters.layer import Layer
from budget_cpython.proxy.recorder import AsAsked, Quiet, Recorder
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.wall_clock import WALL

_OF_EACH_CALL = ("calls", "tokens")


@dataclass(frozen=True)
class Rules:
    """How the calls of one account are kept within its budget.

    `layers` are the accounts that each call draws on, the outermost first. With `notices` the model
    reads of limits that are near, and loses tools; else messages and tools stay as they are.
    `strict` refuses requests that are not model calls of a known format.
    """

    layers: Sequence[Layer]
    notices: bool = False
    strict: bool = False


class Account:
    """One account's rules, with what every call of it passes."""

    def __init__(self, rules: Rules, record: UsageByModel) -> None:
        self.strict = rules.strict
        recorder = Recorder(record, bool(rules.layers))
        self.layers: list[Any] = [recorder, *rules.layers]
        if not rules.notices:
            self.layers = [recorder, Quiet(), *rules.layers, AsAsked()]
        providers: list[Any] = [layer.wrapper(False).inner for layer in rules.layers]
        self._accounts: list[LedgerAccount] = [one.ledger_account for one in providers]
        rows = zip(rules.layers, self._accounts, strict=True)
        self._strict = [account for layer, account in rows if layer.is_strict]

    async def refuse_spent(self) -> None:
        """Raise `BudgetExceededError` if no model call can fit: calls or tokens are spent.

        Money is not asked for: some models are free. Raises what the ledgers raise, too.
        """
        for account in self._strict:
            for row in await maybe_await(account.ledger.balance(account.path)):
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

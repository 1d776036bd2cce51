"""The accounts that requests draw on, and how each is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from budget_core.ledger.llm_account import LedgerAccount, LlmHold
from budget_cpython.adapters.layer import Layer
from budget_cpython.proxy.recorder import AsAsked, Quiet, Recorder
from budget_cpython.proxy.usage_by_model import UsageByModel


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

    async def take_call(self) -> list[LlmHold]:
        """Hold one call on each layer; raises what the ledgers raise, and then holds nothing."""
        held: list[LlmHold] = []
        for account in self._accounts:
            try:
                hold = await account.hold({"calls": 1})
            except BaseException:
                await settle_call(held, False)
                raise
            held.append(LlmHold(account, hold, None))
        return held


async def settle_call(held: list[LlmHold], was_sent: bool) -> None:
    """Count a call that was held, or give it back."""
    for hold in held:
        await (hold.commit({"calls": 1}) if was_sent else hold.release())

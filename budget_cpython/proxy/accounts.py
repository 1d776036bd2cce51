"""The accounts that requests draw on, and how each is kept."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from budget_core.errors import BudgetError
from budget_core.ledger.records import Hold
from budget_core.provider import maybe_await
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.shared_ledgers import pair_of
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
        self._places = [(pair_of(layer.ledger).awaited, layer.account) for layer in rules.layers]

    async def take_call(self) -> "list[tuple[Any, Hold]]":
        """Hold one call on each layer; raises what the ledgers raise, and then holds nothing."""
        held: list[tuple[Any, Hold]] = []
        for ledger, path in self._places:
            try:
                hold = await maybe_await(ledger.reserve(path, {"calls": 1}))
            except BaseException:
                await settle_call(held, False)
                raise
            held.append((ledger, hold))
        return held


async def settle_call(held: "list[tuple[Any, Hold]]", was_sent: bool) -> None:
    """Count a call that was held, or give it back; what a ledger cannot settle expires as spent."""
    for ledger, hold in held:
        with suppress(BudgetError):
            if was_sent:
                await maybe_await(ledger.commit(hold, {"calls": 1}))
            else:
                await maybe_await(ledger.release(hold))

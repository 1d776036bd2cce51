"""Calls that are cancelled or closed at each step: nothing is held that no promise names."""

import asyncio
import itertools
from typing import Any

import pytest

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.tools import BudgetedToolCall
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.passthrough import AsyncPassthrough
from tests.adapters.support import a_request, an_answer

USED = {"calls": (1, 0), "tokens": (15, 0)}
TOOL_USED = {"tool_calls": (1, 0)}
BREAKS = [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit]


class SlowLedger(AsyncPassthrough):
    """A ledger that awaits before and after each operation."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.ledger.set_limits("acme", parse_limits("5 calls + 1000 tokens + 5 tool_calls"))

    async def _do(self, operation: str, *arguments: Any) -> Any:
        await asyncio.sleep(0)
        found = getattr(self.ledger, operation)(*arguments)
        await asyncio.sleep(0)
        return found

    def figures(self) -> dict[str, tuple[int, int]]:
        rows = {row.axis: (row.spent, row.held) for row in self.ledger.balance("acme")}
        return {axis: figures for axis, figures in rows.items() if figures != (0, 0)}


async def steps_of(make: Any, kind: Any) -> set[str]:
    """Return which figures are left after work is broken off at each of its steps."""
    found: set[str] = set()
    for step in itertools.count(0):
        ledgers = [SlowLedger(), SlowLedger()]
        accounts = [BudgetAccount((), ledger, "acme") for ledger in ledgers]
        work = make(accounts)
        try:
            for _ in range(step):
                work.send(None)
            if kind is not GeneratorExit:
                work.throw(kind())
                while True:  # what it awaits to give back
                    work.send(None)
            work.close()
        except StopIteration:
            return found  # it had ended
        except kind:
            pass
        for account in accounts:
            await account.flush()
        for _ in range(99):
            await asyncio.sleep(0)  # a task delivers what is owed
        assert len(asyncio.all_tasks()) == 1  # no hold is extended any more
        found.add(str([ledger.figures() for ledger in ledgers]))
    raise AssertionError


@pytest.mark.parametrize("kind", BREAKS)
def test_an_admission_that_breaks_off_holds_nothing(kind: Any) -> None:
    async def admit(accounts: list[BudgetAccount]) -> None:
        await BudgetedCall(accounts, a_request()).begin()

    assert asyncio.run(steps_of(admit, kind)) == {str([{}, {}])}


@pytest.mark.parametrize("kind", BREAKS)
def test_a_settlement_that_breaks_off_counts_the_use_everywhere(kind: Any) -> None:
    async def use(accounts: list[BudgetAccount]) -> None:
        call = BudgetedCall(accounts, a_request())
        await call.begin()
        await call.end(an_answer())

    assert asyncio.run(steps_of(use, kind)) == {str([{}, {}]), str([USED, USED])}


@pytest.mark.parametrize("kind", BREAKS)
@pytest.mark.parametrize("is_run", [True, False])
def test_a_tool_call_that_breaks_off_counts_or_is_given_back(kind: Any, is_run: bool) -> None:
    async def use(accounts: list[BudgetAccount]) -> None:
        call = BudgetedToolCall(accounts, "search")
        await call.begin()
        await (call.end() if is_run else call.release())

    found = asyncio.run(steps_of(use, kind))
    assert found == {str([{}, {}])} | ({str([TOOL_USED, TOOL_USED])} if is_run else set())

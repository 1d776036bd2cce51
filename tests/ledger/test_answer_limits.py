"""Calls without a limit of their own, on accounts that limit calls alone, and then tokens too."""

import asyncio
from typing import Any

import pytest

from budget_cpython import BudgetWrapper, ChatResponse, Ledger, Limit
from budget_cpython.ledger.lease import LeasedLedger
from tests.ledger.engines import ENGINES, Engine, Served, of
from tests_micro.script import Script

HELLO = [{"role": "user", "content": "Hello!"}]
USAGE = {"prompt_tokens": 10, "completion_tokens": 300, "total_tokens": 310}


def asked(ledger: Any, calls: int) -> list[int | None]:
    """Make calls one after the other; return the limits that the model was given."""
    model = Script(ChatResponse("Hi.", usage=USAGE), model="m")
    wrapper = BudgetWrapper(
        model, ledger=ledger, account="org/agent", count_tokens=lambda messages, tools: 10
    )

    async def play() -> None:
        for _ in range(calls):
            await wrapper.chat(HELLO)

    asyncio.run(play())
    return [request.get("max_tokens") for request in model.requests]


@of(*ENGINES, Served)
def test_the_engine_says_whether_an_answer_is_bounded(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("calls", 50), Limit("tokens", None)])
    assert asked(ledger, 3) == [None] * 3
    ledger.set_limits("org", [Limit("calls", 50), Limit("tokens", 2000)])
    assert asked(ledger, 1) == [2000 - 3 * 310 - 10]


@pytest.mark.parametrize("tokens", [None, 10**9])
def test_a_leased_block_serves_calls_without_asking_for_each(
    tokens: int | None,
) -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("calls", 500), Limit("tokens", tokens)])
    told: list[str] = []
    for name in ("reserve", "commit", "charge", "extend"):
        setattr(ledger, name, _noting(told, name, getattr(ledger, name)))
    leased = LeasedLedger(ledger)
    limits = asked(leased, 90)
    assert (limits[-1] is None) is (tokens is None)
    assert told == ["reserve"]
    leased.close()
    assert {row.axis: row.spent for row in ledger.balance("org")} == {"calls": 90, "tokens": 27_900}


def _noting(told: list[str], name: str, method: Any) -> Any:
    def note(*given: Any) -> Any:
        told.append(name)
        return method(*given)

    return note

"""Fifty calls at once, whose worst cases do not fit and whose real need does, are all served.

Each may have an answer of 4,096 tokens, uses 306 tokens, and draws on an account of 20,000.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import BudgetWrapper, ChatResponse, Limit
from tests.ledger.engines import (
    ENGINES,
    AwaitedPostgres,
    AwaitedRedis,
    AwaitedServed,
    Engine,
    Served,
    Sqlite,
    of,
)
from tests.ledger.patience import NO_HURRY
from tests.racing import in_threads
from tests_micro.script import Script

CALLS, CAP, PROMPT, ANSWER = 50, 20_000, 6, 300
HELLO = [{"role": "user", "content": "Hello!"}]


async def answer(request: dict[str, Any]) -> ChatResponse:
    """Answer with 306 tokens, after others had their turn."""
    await asyncio.sleep(0)
    said = min(ANSWER, request["max_tokens"])
    usage = {"prompt_tokens": PROMPT, "completion_tokens": said, "total_tokens": PROMPT + said}
    return ChatResponse("Hi.", usage=usage)


async def at_once(ledger: Any, model: Script, calls: int, **options: Any) -> int:
    """Make calls side by side on this loop; return how many the model answered."""
    wrapper = BudgetWrapper(
        model,
        ledger=ledger,
        account="org/agent",
        count_tokens=lambda messages, tools: PROMPT,
        wait=NO_HURRY,
        **options,
    )
    answers = await asyncio.gather(*[wrapper.chat(HELLO) for _ in range(calls)])
    return sum(answer.cut_off_by is None for answer in answers)


@pytest.fixture
def ledger(engine: Engine) -> Any:
    made = engine.make()
    made.set_limits("org", [Limit("tokens", CAP)])
    return made


def check(ledger: Any, model: Script, served: int) -> None:
    """Assert that all calls were served, none cut short, and nothing is left held."""
    [row] = ledger.balance("org")
    assert (served, row.spent, row.held) == (CALLS, CALLS * (PROMPT + ANSWER), 0)
    assert min(model.limits) >= ANSWER


@of(*ENGINES, Served)
@pytest.mark.parametrize("options", [{}, {"expect": 400}, {"expect": "learned"}], ids=str)
def test_on_one_event_loop(ledger: Any, options: dict[str, Any]) -> None:
    model = Script(answer, model="m")
    check(ledger, model, asyncio.run(at_once(ledger, model, CALLS, **options)))


@of(*ENGINES, Served)
def test_in_threads_with_loops_of_their_own(ledger: Any) -> None:
    model = Script(answer, model="m")
    served = in_threads(lambda: asyncio.run(at_once(ledger, model, CALLS // 10)), 10)
    check(ledger, model, sum(served))


@of(AwaitedRedis, AwaitedPostgres, AwaitedServed)
@pytest.mark.parametrize("options", [{}, {"expect": 400}], ids=str)
def test_with_a_ledger_that_is_awaited(ledger: Any, options: dict[str, Any]) -> None:
    model = Script(answer, model="m")
    check(ledger, model, ledger.run(at_once(ledger.ledger, model, CALLS, **options)))


def test_two_processes_on_one_file(tmp_path: Path) -> None:
    """Two ledgers on one file are as two processes: neither sees the other's settlements."""
    model = Script(answer, model="m")
    engine = Sqlite(tmp_path)
    ledgers = [engine.make(), engine.open()]
    ledgers[0].set_limits("org", [Limit("tokens", CAP)])
    each = iter(ledgers)
    served = in_threads(lambda: asyncio.run(at_once(next(each), model, CALLS // 2)), 2)
    check(ledgers[0], model, sum(served))
    for ledger in ledgers:
        ledger.close()

"""Fifty calls at once, whose worst cases do not fit and whose real need does, are all served.

Each may have an answer of 4,096 tokens, uses 306 tokens, and draws on an account of 20,000.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import BudgetWrapper, ChatResponse, Limit
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.postgres import AsyncPostgresLedger
from budget_cpython.ledger.redis import AsyncRedisLedger
from tests.ledger.engines import ENGINES, in_postgres, in_sqlite
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis
from tests.racing import in_threads
from tests.serve.support import Service
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


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as running:
        yield running
        assert running.end() == (0, "")


@pytest.fixture(params=[*ENGINES, None])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param is None:
        url = request.getfixturevalue("service").url
        opened: Any = HttpLedger(url, timeout_s=NO_HURRY)
        opened.set_limits("org", [])
    else:
        opened = request.param(tmp_path)
    with closing(opened):
        opened.set_limits("org", [Limit("tokens", CAP)])
        yield opened


def check(ledger: Any, model: Script, served: int) -> None:
    """Assert that all calls were served, none cut short, and nothing is left held."""
    [row] = ledger.balance("org")
    assert (served, row.spent, row.held) == (CALLS, CALLS * (PROMPT + ANSWER), 0)
    assert min(model.limits) >= ANSWER


@pytest.mark.parametrize("options", [{}, {"expect": 400}, {"expect": "learned"}], ids=str)
def test_on_one_event_loop(ledger: Any, options: dict[str, Any]) -> None:
    model = Script(answer, model="m")
    check(ledger, model, asyncio.run(at_once(ledger, model, CALLS, **options)))


def test_in_threads_with_loops_of_their_own(ledger: Any) -> None:
    model = Script(answer, model="m")
    served = in_threads(lambda: asyncio.run(at_once(ledger, model, CALLS // 10)), 10)
    check(ledger, model, sum(served))


@asynccontextmanager
async def awaited(kind: str, url: str) -> AsyncIterator[Any]:
    """Open an empty ledger for asyncio."""
    ledger: Any
    if kind == "redis":
        ledger = AsyncRedisLedger(redis.empty_server().url, timeout=PATIENCE)
    elif kind == "postgres":
        in_postgres(Path()).close()
        ledger = AsyncPostgresLedger(postgres.server().conninfo(), timeout=NO_HURRY)
    else:
        ledger = AsyncHttpLedger(url, timeout_s=NO_HURRY)
        await ledger.set_limits("org", [])
    await ledger.set_limits("org", [Limit("tokens", CAP)])
    yield ledger
    await ledger.close()


@pytest.mark.parametrize("options", [{}, {"expect": 400}], ids=str)
@pytest.mark.parametrize("kind", ["redis", "postgres", "serve"])
def test_with_a_ledger_that_is_awaited(
    kind: str, options: dict[str, Any], service: Service
) -> None:
    async def play() -> None:
        model = Script(answer, model="m")
        async with awaited(kind, service.url) as ledger:
            served = await at_once(ledger, model, CALLS, **options)
            [row] = await ledger.balance("org")
        assert (served, row.spent, row.held) == (CALLS, CALLS * (PROMPT + ANSWER), 0)
        assert min(model.limits) >= ANSWER

    asyncio.run(play())


def test_two_processes_on_one_file(tmp_path: Path) -> None:
    """Two ledgers on one file are as two processes: neither sees the other's settlements."""
    model = Script(answer, model="m")
    ledgers = [in_sqlite(tmp_path), in_sqlite(tmp_path)]
    ledgers[0].set_limits("org", [Limit("tokens", CAP)])
    each = iter(ledgers)
    served = in_threads(lambda: asyncio.run(at_once(next(each), model, CALLS // 2)), 2)
    check(ledgers[0], model, sum(served))
    for ledger in ledgers:
        ledger.close()

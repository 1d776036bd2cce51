"""Agents on an account of every engine of this machine get notices and a last answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import Ledger, Limit
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.redis import RedisLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis
from tests_micro.ledger.test_final_calls import CAP, check_operative, check_wrapper


def on_memory(folder: Path) -> Any:
    return Ledger()


def on_sqlite(folder: Path) -> Any:
    return SqliteLedger(folder / "ledger.db", timeout=NO_HURRY)


def on_redis(folder: Path) -> Any:
    with closing(redis.server().client()) as client:
        client.flushall()
    return RedisLedger(redis.server().url, timeout=PATIENCE)


def on_postgres(folder: Path) -> Any:
    ledger = PostgresLedger(postgres.server().conninfo(), timeout=NO_HURRY)
    ledger.accounts()
    with closing(postgres.Emptier()) as emptier:
        emptier.empty()
    return ledger


@pytest.fixture(params=[on_memory, on_sqlite, on_redis, on_postgres])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with closing(request.param(tmp_path)) as opened:
        opened.set_limits("org", [Limit("tokens", CAP, "day")])
        yield opened


@pytest.mark.parametrize("check", [check_operative, check_wrapper])
def test_an_agent_on_an_account_ends_with_an_answer(check: Callable[..., Any], ledger: Any) -> None:
    asyncio.run(check(ledger, ledger))

"""Agents on an account of every engine of this machine get notices and a last answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import Limit
from tests.ledger.engines import ENGINES
from tests_micro.ledger.test_final_calls import CAP, check_operative, check_wrapper


@pytest.fixture(params=ENGINES)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with closing(request.param(tmp_path)) as opened:
        opened.set_limits("org", [Limit("tokens", CAP, "day")])
        yield opened


@pytest.mark.parametrize("check", [check_operative, check_wrapper])
def test_an_agent_on_an_account_ends_with_an_answer(check: Callable[..., Any], ledger: Any) -> None:
    asyncio.run(check(ledger, ledger))

"""Agents on an account of every engine of this machine get notices and a last answer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from budget_cpython import Limit
from tests.ledger.engines import ENGINES, Engine, of
from tests_micro.ledger.test_final_calls import CAP, check_operative, check_wrapper


@of(*ENGINES)
@pytest.mark.parametrize("check", [check_operative, check_wrapper])
def test_an_agent_on_an_account_ends_with_an_answer(
    check: Callable[..., Any], engine: Engine
) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", CAP, "day")])
    asyncio.run(check(ledger, ledger))

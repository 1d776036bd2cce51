"""Holds that nobody settles and nobody looks for are settled all the same, from time to time."""

from pathlib import Path
from typing import Any

import pytest

from budget_cpython import Limit, SqliteLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.patience import NO_HURRY
from tests.ledger.redis.server import server
from tests_micro.support import FakeClock

START = 1_800_000_000


def test_in_a_file_few_are_left(tmp_path: Path) -> None:
    clock = FakeClock(START)
    with SqliteLedger(tmp_path / "budget.db", clock=clock) as ledger:
        ledger.set_limits("org", [Limit("calls", None, "hour")])
        for _ in range(600):
            ledger.reserve("org", {"calls": 1}, ttl=1)
            clock.advance(60)
    view = SqliteLedger.view(tmp_path / "budget.db")
    ((live,),) = view.execute("SELECT count(*) FROM holds_live")
    view.close()
    assert live <= 300


@pytest.mark.parametrize("left_over", [0, 1])
def test_on_a_server_few_are_left(left_over: int) -> None:
    clock, client = FakeClock(START), server().client()
    client.flushall()
    ledger = RedisLedger(server().url, clock=clock, timeout=NO_HURRY)
    beneath: Any = ledger._ledger
    beneath._reserved = 0
    ledger.set_limits("org", [Limit("calls", None, "hour")])
    for _ in range(999 + left_over):
        ledger.reserve("org", {"calls": 1}, ttl=1)
    clock.advance(2)
    ledger.reserve("org", {"calls": 1}, ttl=1)
    ledger.close()
    keys = [key for key in client.keys("*") if client.type(key) == b"zset"]  # each key once
    assert sum(client.zcard(key) for key in keys) == (1001 if left_over else 1)
    client.close()

"""Outages of a ledger, and what was granted meanwhile, among its events once it answers again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython import SqliteLedger
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from budget_cpython.ledger.redis import RedisLedger
from budget_cpython.wall_clock import WALL
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import empty_server, hurry, server

PATH = "org/agent"
HASTE = 0.1  # seconds


def outages(events: list[LedgerEvent]) -> list[LedgerEvent]:
    return [one for one in events if one.kind == "outage"]


def test_an_outage_is_noted_once_when_the_ledger_answers_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteLedger(path, timeout=0) as ledger:
        ledger.set_limits("org", [Limit("calls", 10)])
        began = int(WALL())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for _ in range(3):
                with pytest.raises(LedgerUnavailableError):
                    ledger.reserve(PATH, {"calls": 1})
            other.execute("ROLLBACK")
        ledger.commit(ledger.reserve(PATH, {"calls": 1}))
        (found,) = outages(ledger.events())
        assert found.account == ""
        assert found.details["error"] == "LedgerUnavailableError"
        assert began <= found.details["from"] <= found.details["until"] <= int(WALL())
        ledger.reserve(PATH, {"calls": 1})
        assert len(outages(ledger.events())) == 1


def test_what_was_granted_while_a_server_hung_is_noted_with_the_outage() -> None:
    running = empty_server()
    with closing(RedisLedger(running.url, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("calls", 100)])
    client = running.client()
    capped = OfflineCapLedger(RedisLedger(client), {"calls": 10})
    capped.balance("org")  # in reach at first
    running.pause()
    hurry(client, HASTE)
    try:
        for calls in (4, 2):
            capped.commit(capped.reserve(PATH, {"calls": calls}))
        capped.commit(capped.reserve("org/other", {"calls": 1}))
    finally:
        running.go_on()
    hurry(client, PATIENCE)
    capped.close()
    client.close()
    with closing(RedisLedger(server().url, timeout=PATIENCE)) as ledger:
        events = ledger.events(kinds=["outage", "grant"])
        (balance,) = ledger.balance("org")
    assert balance.spent == 7
    granted = {one.account: one.details["amounts"] for one in events if one.kind == "grant"}
    assert granted == {PATH: {"calls": 6}, "org/other": {"calls": 1}}
    assert outages(events)

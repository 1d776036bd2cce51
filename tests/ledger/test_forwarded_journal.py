"""What a ledger in front of another one tells operators is what that one tells."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from budget_cpython import Ledger, Limit
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from budget_cpython.ledger.opening import open_async_ledger
from budget_cpython.ledger.threaded import ThreadedLedger

EVENT = LedgerEvent("threshold", "acme", {"percent": 50}, "once")
ROW = HourOfUsage(500_000 * HOUR_S, "acme", "small", "", {"calls": 1})


@pytest.mark.parametrize(
    "front",
    [lambda ledger: LeasedLedger(ledger), lambda ledger: OfflineCapLedger(ledger, {"calls": 9})],
)
def test_a_ledger_in_front_asks_the_one_upstream(front: Any) -> None:
    ledger = Ledger()
    ledger.set_limits("acme", [Limit("calls", 9)])
    with closing(front(ledger)) as one:
        ledger.reserve("acme", {"calls": 2})
        assert one.balances("acme")[0].held == 2
        assert one.open_holds() == ledger.open_holds() != []
        assert one.note([EVENT]) == [2]
        assert one.note([EVENT]) == [0]
        assert one.events("acme", ["threshold"]) == ledger.events()[1:] != []
        one.add_usage([ROW])
        assert one.usage("acme", 0) == ledger.usage() == [ROW]


def test_a_ledger_in_threads_is_awaited() -> None:
    async def ask() -> None:
        ledger = open_async_ledger("memory:")
        assert isinstance(ledger, ThreadedLedger)
        await ledger.set_limits("acme", [Limit("calls", 9)])
        await ledger.reserve("acme", {"calls": 2}, "one")
        assert [one.held for one in await ledger.balances()] == [2]
        assert [one.id for one in await ledger.open_holds("acme", 5)] == ["one"]
        assert await ledger.note([EVENT]) == [2]
        assert [one.name for one in await ledger.events(after=1)] == ["once"]
        await ledger.add_usage([ROW])
        assert await ledger.usage(since=ROW.hour) == [ROW]

    asyncio.run(ask())

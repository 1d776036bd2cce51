"""Leases from files, by threads and processes, and ledgers that block under asyncio."""

import asyncio
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.lease import AsyncLeasedLedger, LeasedLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.ledger.threaded import ThreadedLedger
from tests.ledger.patience import NO_HURRY
from tests.racing import in_threads
from tests_micro.support import stopped_clock

PATH = "org/agent"
BLOCK = {"calls": 20}


def stored(path: Path, calls: int) -> SqliteLedger:
    ledger = SqliteLedger(path, timeout=NO_HURRY)
    ledger.set_limits("org", [Limit("calls", calls, "run")])
    return ledger


def claim_all(leased: Any) -> int:
    """Claim until nothing is left, and give back what is unused."""
    granted = 0
    while True:
        try:
            leased.commit(leased.reserve(PATH, {"calls": 1}))
        except BudgetExceededError:
            return granted
        granted += 1


def test_threads_use_a_budget_up_exactly(tmp_path: Path) -> None:
    ledger = stored(tmp_path / "ledger.db", 1010)
    leased = LeasedLedger(ledger, BLOCK)
    assert sum(in_threads(lambda: claim_all(leased), 8)) == 1010
    leased.close()
    (found,) = SqliteLedger(tmp_path / "ledger.db").balance("org")
    assert (found.spent, found.held) == (1010, 0)


def _process(path: Path, granted: Any) -> None:
    found: Any = "failed"
    try:
        leased = LeasedLedger(SqliteLedger(path, timeout=NO_HURRY), BLOCK)
        found = claim_all(leased)
        leased.close()
    finally:
        granted.put(found)


def test_processes_use_a_budget_up_exactly(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = stored(path, 1010)
    context = multiprocessing.get_context("spawn")
    granted = context.Queue()
    processes = [context.Process(target=_process, args=(path, granted)) for _ in range(4)]
    for process in processes:
        process.start()
    total = sum(granted.get() for _ in processes)
    for process in processes:
        process.join()
    assert total == 1010
    (found,) = ledger.balance("org")
    assert (found.spent, found.held) == (1010, 0)


def test_tasks_lease_from_a_ledger_that_blocks(tmp_path: Path) -> None:
    async def check() -> int:
        ledger = stored(tmp_path / "ledger.db", 105)
        leased = AsyncLeasedLedger(ThreadedLedger(ledger), BLOCK)

        async def claim() -> int:
            for granted in range(100):
                try:
                    await leased.commit(await leased.reserve(PATH, {"calls": 1}))
                except BudgetExceededError:
                    return granted
            return 100

        granted = sum(await asyncio.gather(*[claim() for _ in range(5)]))
        await leased.close()
        return granted

    assert asyncio.run(check()) == 105
    (found,) = SqliteLedger(tmp_path / "ledger.db").balance("org")
    assert (found.spent, found.held) == (105, 0)


def test_a_block_goes_on_while_its_file_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    stored(path, 100)
    _, monotonic = stopped_clock()
    leased = LeasedLedger(SqliteLedger(path, timeout=0), BLOCK, monotonic=monotonic)
    leased.commit(leased.reserve(PATH, {"calls": 1}))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(19):
            leased.commit(leased.reserve(PATH, {"calls": 1}))
        with pytest.raises(LedgerUnavailableError):
            leased.reserve(PATH, {"calls": 1})
    leased.close()
    (found,) = SqliteLedger(path).balance("org")
    assert (found.spent, found.held) == (20, 0)


def test_accounts_are_those_upstream(tmp_path: Path) -> None:
    leased = LeasedLedger(stored(tmp_path / "ledger.db", 100), BLOCK)
    leased.set_limits("org/b", [Limit("calls", 5)])
    assert leased.accounts() == ["org", "org/b"]
    assert leased.limits("org/b") == [Limit("calls", 5)]
    assert leased.history("org/b") == []
    hold = leased.reserve("org/b", {"calls": 1}, "k")
    assert leased.extend(hold, 500).id == leased.hold("org/b", "k").id == "k"
    leased.release(hold)
    leased.charge("org/b", {"calls": 1})
    assert (leased.expire(), leased.balance("org/b")[1].spent) == (0, 1)

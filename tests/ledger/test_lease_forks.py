"""Leases and grants in processes that are forked, and in one event loop after the other."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.ledger.outbox import finish
from budget_cpython.ledger.lease import AsyncLeasedLedger, LeasedLedger
from budget_cpython.ledger.locks import TaskGate
from budget_cpython.ledger.offline_cap import AsyncOfflineCapLedger, OfflineCapLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.forked import in_child
from tests.ledger.patience import NO_HURRY
from tests_micro.ledger.faults import Faulty

PATH = "org/agent"
BLOCK = {"calls": 100}


def stored(folder: Path, calls: int = 1000) -> SqliteLedger:
    ledger = SqliteLedger(folder / "ledger.db", timeout=NO_HURRY)
    ledger.set_limits("org", [Limit("calls", calls)])
    return ledger


def stands(folder: Path) -> tuple[int, int]:
    (found,) = SqliteLedger(folder / "ledger.db").balance("org")
    return found.spent, found.held


def test_each_forked_process_holds_under_names_of_its_own(tmp_path: Path) -> None:
    ledger = OfflineCapLedger(stored(tmp_path), {"calls": 10})
    for _ in range(4):
        assert in_child(lambda: ledger.commit(ledger.reserve(PATH, BLOCK))) == 0
    ledger.commit(ledger.reserve(PATH, BLOCK))
    assert stands(tmp_path) == (500, 0)


def test_no_block_is_used_by_two_processes(tmp_path: Path) -> None:
    leased = LeasedLedger(stored(tmp_path, 150), BLOCK)
    hold = leased.reserve(PATH, {"calls": 1})

    def use() -> None:
        leased.commit(leased.reserve(PATH, {"calls": 50}))
        with pytest.raises(BudgetExceededError):
            leased.reserve(PATH, {"calls": 1})
        leased.close()

    assert in_child(use) == 0
    leased.commit(hold)
    leased.close()
    assert stands(tmp_path) == (51, 0)


@pytest.mark.parametrize("kind", [LeasedLedger, OfflineCapLedger])
def test_a_forked_process_leaves_to_its_parent_what_that_owes(tmp_path: Path, kind: Any) -> None:
    faulty = Faulty(stored(tmp_path))
    ledger = kind(faulty, {"calls": 10})
    faulty.down = "before"
    ledger.charge(PATH, {"calls": 3})

    def settle() -> None:
        faulty.down = ""
        ledger.close()
        assert stands(tmp_path) == (0, 0)

    assert in_child(settle) == 0
    faulty.down = ""
    ledger.close()
    assert stands(tmp_path) == (3, 0)


def test_a_forked_process_has_the_whole_cap_and_no_grants(tmp_path: Path) -> None:
    faulty = Faulty(stored(tmp_path))
    ledger = OfflineCapLedger(faulty, {"calls": 10})
    faulty.down = "before"
    hold = ledger.reserve(PATH, {"calls": 10})
    with pytest.raises(LedgerUnavailableError):
        ledger.reserve(PATH, {"calls": 1})

    def grant() -> None:
        assert ledger.unsettled == 0
        ledger.commit(ledger.reserve(PATH, {"calls": 10}))
        faulty.down = ""
        ledger.close()
        assert stands(tmp_path) == (10, 0)

    assert in_child(grant) == 0
    ledger.commit(hold)
    faulty.down = ""
    ledger.close()
    assert stands(tmp_path) == (20, 0)


def test_a_fork_while_another_thread_asks_leaves_nothing_locked(tmp_path: Path) -> None:
    leased = LeasedLedger(stored(tmp_path), BLOCK)
    allowing = OfflineCapLedger(Faulty(stored(tmp_path)), BLOCK)
    leased.reserve(PATH, {"calls": 1})

    def use() -> None:
        leased.reserve(PATH, {"calls": 1})
        leased.close()
        allowing.expire()

    gates = (leased._leased._gate, allowing._capped._gate)
    for gate in gates:
        finish(gate.__aenter__())
    with cast(Any, leased._leased._lock), allowing._capped._lease._lock:
        assert in_child(use) == 0
    for gate in gates:
        finish(gate.__aexit__(None, None, None))


def test_a_forked_process_has_blocks_of_its_own_for_asyncio_too(tmp_path: Path) -> None:
    stored(tmp_path)
    leased = AsyncLeasedLedger(SqliteLedger(tmp_path / "ledger.db"), BLOCK)
    allowing = AsyncOfflineCapLedger(SqliteLedger(tmp_path / "ledger.db"), BLOCK)

    async def use() -> None:
        await leased.commit(await leased.reserve(PATH, {"calls": 1}))
        await allowing.commit(await allowing.reserve(PATH, {"calls": 1}))

    asyncio.run(use())
    assert in_child(lambda: asyncio.run(use())) == 0
    assert stands(tmp_path) == (2, 200)


@pytest.mark.parametrize("kind", [AsyncLeasedLedger, AsyncOfflineCapLedger])
def test_one_event_loop_after_the_other_may_use_a_ledger(tmp_path: Path, kind: Any) -> None:
    faulty = Faulty(stored(tmp_path), slow=True)
    ledger = kind(faulty, {"calls": 5})

    async def use() -> None:
        faulty.down = "before"
        await ledger.charge(PATH, {"calls": 1})
        faulty.down = ""
        ledger.upstream.retry_now()
        await asyncio.gather(*[ledger.charge(PATH, {"calls": 1}) for _ in range(9)])

    for _ in range(3):
        asyncio.run(use())
    asyncio.run(ledger.close())
    assert stands(tmp_path) == (30, 0)


def test_a_gate_forgets_loops_that_are_closed() -> None:
    gate = TaskGate()

    async def enter() -> None:
        async with gate:
            pass

    for _ in range(3):
        asyncio.run(enter())
    assert len(gate._locks) == 1

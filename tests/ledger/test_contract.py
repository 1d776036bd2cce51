"""What every engine does, whether it blocks or is awaited: the same as the ledger in memory."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_cpython import SqliteLedger
from budget_cpython.ledger import remote
from tests.forked import begin_in_child, exit_code
from tests.ledger import claims, linearizable
from tests.ledger.engines import (
    AWAITED,
    ENGINES,
    SPREAD,
    AwaitedPostgres,
    AwaitedRedis,
    AwaitedServed,
    AwaitedSqlite,
    Dbos,
    Engine,
    Postgres,
    Redis,
    Served,
    SpreadPostgres,
    Sqlite,
    of,
)
from tests.ledger.machine import LedgerMachine
from tests.properties import examples
from tests.racing import in_threads
from tests_micro.ledger import cases
from tests_micro.support import FakeClock

VECTORS = {name: list(of_file) for name, of_file in groupby(cases.cases(), cases.file_of)}
NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}
ALL = (*ENGINES, *AWAITED, *SPREAD, Dbos)
KEPT = (Sqlite, Redis, Postgres)  # where other processes find it


@pytest.fixture(autouse=True)
def _no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no reservation expire what is due: one in so many does, counted from a random one."""
    monkeypatch.setattr(remote, "SWEEP_EVERY", 10**9)


@pytest.fixture
def switches() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@of(*ALL)
@pytest.mark.parametrize("name", VECTORS)
def test_the_shared_vectors_hold(name: str, engine: Engine) -> None:
    for case in VECTORS[name]:
        if engine.places == 1 or "max_accounts" not in case.get("options", ()):
            cases.run(case, engine.make)


@of(*KEPT, SpreadPostgres)
def test_any_history_is_as_in_memory(engine: Engine) -> None:
    class Machine(LedgerMachine):
        expires_by_root = engine.expires_by_root

        def make(self, clock: Any, keep: int) -> Any:
            return engine.make(clock, keep=keep)

        def end(self) -> None:
            """Leave it to the next one."""

    run_state_machine_as_test(Machine, settings=examples(40, stateful_step_count=30))


@of(*KEPT)  # a hold of the ledger in memory changes before a thread has read its answer
@pytest.mark.usefixtures("switches")
def test_what_threads_do_at_once_has_an_order_that_the_reference_explains(engine: Engine) -> None:
    assert linearizable.check(engine.make, range(25)) >= 100


@of(Sqlite, Redis, pytest.param(Postgres, marks=pytest.mark.slow))
def test_processes_that_are_killed_are_granted_the_limit_exactly(engine: Engine) -> None:
    engine.make()
    work = claims.Claims(lambda clock: engine.open(clock=clock), 8, 100, kills=20)
    work.run()
    assert work.kills >= 10  # as many as are due before the hour ends


@of(*ENGINES, Served)
@pytest.mark.usefixtures("switches")
def test_threads_are_granted_the_limit_exactly(engine: Engine) -> None:
    ledger = engine.make(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", 300)])
    granted: list[Hold] = []

    def claim() -> None:
        for _ in range(50):
            try:
                granted.append(ledger.commit(ledger.reserve("org/team", ONE), ONE))
            except BudgetExceededError:
                pass

    in_threads(claim, 8)
    (row,) = ledger.balance("org")
    assert (len(granted), row.spent, row.held) == (300, 300, 0)
    assert len({hold.id for hold in granted}) == 300


@of(AwaitedSqlite, AwaitedRedis, AwaitedPostgres, AwaitedServed)
def test_tasks_are_granted_the_limit_exactly(engine: Engine) -> None:
    engine.make(lambda: NOON).set_limits("org", [Limit("tokens", 300)])
    ledger = engine.open().ledger

    async def claim() -> bool:
        try:
            await ledger.commit(await ledger.reserve("org/agent", ONE))
        except BudgetExceededError:
            return False
        return True

    async def play() -> int:
        granted = sum(await asyncio.gather(*[claim() for _ in range(400)]))
        (row,) = await ledger.balance("org")
        assert (row.spent, row.held) == (granted, 0)
        await ledger.close()
        return granted

    assert asyncio.run(play()) == 300


@of(*KEPT)
def test_a_forked_process_and_its_parent_share_a_budget(engine: Engine) -> None:
    engine.make().set_limits("org", [Limit("tokens", None)])
    ledger = engine.open()
    ledger.charge("org", ONE)

    def use() -> None:
        for _ in range(20):
            ledger.commit(ledger.reserve("org", ONE))

    def use_and_close() -> None:
        use()
        ledger.close()

    child = begin_in_child(use_and_close)
    use()
    assert exit_code(child) == 0
    assert ledger.balance("org")[0].spent == 41
    ledger.close()


@of(*KEPT)
@pytest.mark.parametrize("look", ["expire", "balance"])
def test_any_number_of_holds_that_are_over_is_expired(
    engine: Engine, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.batch, 10)
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    ledger.set_limits("org", [Limit("tokens", None)])
    for number in range(25):
        ledger.reserve(f"org/{number}" if number % 2 else "org", ONE, ttl=60)
    clock.advance(60)
    if look == "expire":
        assert ledger.expire() == 25
    (row,) = ledger.balance("org")
    assert (row.spent, row.held) == (25, 0)
    assert ledger.expire() == 0


@of(*KEPT)
def test_another_ledger_sees_what_is_written_at_once(engine: Engine) -> None:
    clock = FakeClock(NOON)
    one, two = engine.make(clock), engine.open(clock=clock)
    one.set_limits("org", [Limit("tokens", 10, "rolling 7200/2")])
    for turn in range(4):
        hold = one.reserve("org/a", {"tokens": 4}, ttl=60)
        two.charge("org", ONE)
        assert two.balance("org")[0].held == 4
        two.set_limits("org/a", [Limit("tokens", None if turn % 2 else 50)])
        two.commit(Hold(hold.path, hold.id), ONE)
        assert one.commit(hold, {"tokens": 3}).actual == ONE
        assert one.balance("org")[0].spent == two.balance("org")[0].spent == min(6, 2 + 2 * turn)
        clock.advance(3600)
    two.close()


@of(*ALL)
def test_an_argument_of_another_type_is_refused_by_name(engine: Engine) -> None:
    ledger = engine.make(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", 10)])
    for operation in (ledger.commit, ledger.release, ledger.extend):
        with pytest.raises(ValueError, match="hold must be a Hold"):
            operation("id")
    with pytest.raises(ValueError, match="hold must be a Hold"):
        ledger.renew("id", {}, ONE)
    with pytest.raises(ValueError, match="id must be"):
        ledger.hold("org", 5)
    with pytest.raises(ValueError, match="tokens, calls, nano_usd"):
        ledger.reserve("org", {"token": 10**9})
    with pytest.raises(ValueError, match="clock must be"):
        engine.open(clock=5)


def test_the_check_for_an_order_notices_a_history_without_one() -> None:
    reference = Ledger(linearizable.clock)
    reference.set_limits("org", [Limit("tokens", 6)])

    def reserve(key: str, began: float, ended: float) -> linearizable.Operation:
        call = ("reserve", ("org", {"tokens": 5}, key))
        fresh = Ledger(linearizable.clock)
        fresh.set_limits("org", [Limit("tokens", 6)])
        return linearizable.Operation(call, linearizable.answer(fresh, call), began, ended)

    def see(spent_and_held: int, began: float, ended: float) -> linearizable.Operation:
        fresh = Ledger(linearizable.clock)
        fresh.set_limits("org", [Limit("tokens", 6)])
        if spent_and_held:
            fresh.reserve("org", {"tokens": spent_and_held})
        call = ("balance", ("org",))
        return linearizable.Operation(call, linearizable.answer(fresh, call), began, ended)

    explain = linearizable.explain
    assert explain(reference, [reserve("a", 0, 3), see(0, 1, 2)])
    assert explain(reference, [reserve("a", 0, 3), see(5, 1, 2)])
    assert explain(reference, [reserve("a", 0, 1), see(0, 2, 3)]) is None  # it had ended before
    assert explain(reference, [reserve("a", 0, 3), reserve("b", 1, 2)]) is None  # 10 of 6
    seen = [reserve("a", 0, 9), see(5, 1, 2), see(0, 3, 4)]
    assert explain(reference, seen) is None  # what was seen was gone again


def test_a_campaign_of_claims_notices_that_each_process_has_a_ledger_of_its_own(
    tmp_path: Path,
) -> None:
    def make(clock: Callable[[], float]) -> SqliteLedger:
        ledger = SqliteLedger(tmp_path / f"{os.getpid()}.db", clock=clock)
        for account in claims.ACCOUNTS:
            ledger.set_limits(account, [Limit("calls", 100, "hour")])
        return ledger

    with pytest.raises(claims.BrokenPromiseError, match="limit 100"):
        claims.Claims(make, 4, 100, kills=0).run()


@pytest.mark.parametrize("library", ["redis", "dbos", "psycopg"])
def test_a_missing_library_is_named_with_its_extra(library: str) -> None:
    room = {"psycopg": "postgres"}.get(library, library)
    code = f"import sys; sys.modules[{library!r}] = None; import budget_cpython.ledger.{room}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"pip install 'microbudget[{room}]'" in done.stderr
    assert done.returncode

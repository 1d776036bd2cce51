"""The ledger on Postgres answers as the reference does, for threads and for asyncio."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_cpython.ledger import remote
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from tests.ledger.machine import LedgerMachine
from tests.ledger.patience import PATIENCE
from tests.ledger.postgres.server import Emptier, server
from tests.properties import examples
from tests_micro.ledger import cases as ledger_cases

CASES = list(ledger_cases.cases())


@pytest.fixture(autouse=True)
def _no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no reservation expire what is due: one in so many does, counted from a random one."""
    monkeypatch.setattr(remote, "SWEEP_EVERY", 10**9)


class Opened:
    """Ledgers by their options, opened once; each case has the clock to itself."""

    def __init__(self, kind: Callable[..., Any]) -> None:
        self._kind = kind
        self._clock: Callable[[], float] = float
        self._ledgers: dict[str, Any] = {}
        with closing(PostgresLedger(server().conninfo(), timeout=PATIENCE)) as ledger:
            ledger.accounts()
        self._emptier = Emptier()

    def make(self, clock: Callable[[], float], **options: Any) -> Any:
        options.pop("max_holds", None)
        self._clock = clock
        self._emptier.empty()
        name = repr(options)
        if name not in self._ledgers:
            conninfo = server().conninfo(options="-c synchronous_commit=off")  # answers only
            options.update(clock=lambda: self._clock(), timeout=PATIENCE)
            self._ledgers[name] = self._kind(conninfo, **options)
        return self._ledgers[name]

    def all(self) -> list[Any]:
        self._emptier.close()
        return list(self._ledgers.values())


@pytest.fixture(scope="module")
def blocking() -> Iterator[Opened]:
    opened = Opened(PostgresLedger)
    yield opened
    for ledger in opened.all():
        ledger.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def waiting(runner: asyncio.Runner) -> Iterator[Opened]:
    opened = Opened(AsyncPostgresLedger)
    yield opened
    for ledger in opened.all():
        runner.run(ledger.close())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_shared_vector_holds(case: dict[str, Any], blocking: Opened) -> None:
    ledger_cases.run(case, blocking.make)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_shared_vector_holds_for_asyncio(
    case: dict[str, Any], waiting: Opened, runner: asyncio.Runner
) -> None:
    runner.run(ledger_cases.run_async(case, waiting.make))


def test_any_history_is_as_in_memory(blocking: Opened) -> None:
    class Machine(LedgerMachine):
        def make(self, clock: Any, keep: int) -> Any:
            return blocking.make(clock, keep=keep)

        def end(self) -> None:
            """Keep it for the next."""

    run_state_machine_as_test(Machine, settings=examples(25, stateful_step_count=30))


def test_a_window_is_kept_as_long_as_something_is_held_in_it(blocking: Opened) -> None:
    now = [1_772_411_400.0]
    histories = []
    for ledger in (Ledger(lambda: now[0]), blocking.make(lambda: now[0])):
        now[0] = 1_772_411_400.0
        ledger.set_limits("org", [Limit("calls", 99, "hour")])
        hold = ledger.reserve("org", {"calls": 50}, ttl=86_400)
        for _ in range(23):
            now[0] += 3600
            ledger.charge("org", {"calls": 1})
        hold = ledger.extend(hold, 86_400)
        for _ in range(20):
            now[0] += 3600
            ledger.charge("org", {"calls": 1})
        ledger.commit(hold, {"calls": 40})
        histories.append([(one.begins_at, one.spent, one.held) for one in ledger.history("org")])
    assert histories[0] == histories[1]
    assert (len(histories[0]), histories[0][-1][1:]) == (33, (40, 0))

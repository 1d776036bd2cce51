"""The ledger in an SQLite file answers as the reference does."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger, loaded_ledger
from tests.ledger.machine import LedgerMachine, comparable, paths, ttls
from tests.properties import examples
from tests_micro.ledger import cases as ledger_cases

CASES = list(ledger_cases.cases())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_shared_vector_holds(case: dict[str, Any], tmp_path: Path) -> None:
    made: list[SqliteLedger] = []

    def make(clock: Any, **options: Any) -> SqliteLedger:
        made.append(SqliteLedger(tmp_path / "ledger.db", clock=clock, **options))
        return made[0]

    try:
        ledger_cases.run(case, make)
    finally:
        for one in made:
            one.close()


def test_any_history_is_as_in_memory(tmp_path: Path) -> None:
    numbers = itertools.count()

    class Machine(LedgerMachine):
        def make(self, clock: Any, keep: int) -> SqliteLedger:
            return SqliteLedger(tmp_path / f"{next(numbers)}.db", clock=clock, keep=keep)

    run_state_machine_as_test(Machine, settings=examples(60, stateful_step_count=40))


class Together:
    """Several ledgers on one file, which take turns."""

    def __init__(self, ledgers: list[SqliteLedger]) -> None:
        self._ledgers = ledgers
        self._turns = itertools.cycle(ledgers)

    def __getattr__(self, name: str) -> Any:
        return getattr(next(self._turns), name)

    def close(self) -> None:
        for one in self._ledgers:
            one.close()


def test_any_history_of_several_ledgers_on_one_file_is_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(loaded_ledger, "STEP", 2)
    monkeypatch.setattr(loaded_ledger, "SWEPT", 2)
    monkeypatch.setattr(loaded_ledger, "SWEEP_EVERY", 1)

    class Machine(LedgerMachine):
        def make(self, clock: Any, keep: int) -> Together:
            path = tmp_path / f"{next(numbers)}.db"
            return Together([SqliteLedger(path, clock=clock, keep=keep) for _ in range(3)])

        @rule()
        def expire(self) -> None:
            self.reference.expire()
            self.engine.expire()  # some had expired before

        def comparable(self, found: Any) -> Any:
            if isinstance(found, BudgetExceededError):  # for the same reason
                found.spent, found.held = found.spent + found.held, 0
            return comparable(found)

        @rule(path=paths, count=st.integers(1, 6), ttl=ttls)
        def take(self, path: str, count: int, ttl: int) -> None:
            for _ in range(count):
                self.reserve(path, {"tokens": 1}, None, ttl)

    run_state_machine_as_test(Machine, settings=examples(60, stateful_step_count=40))


def test_an_argument_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "budget.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10)])
        for operation in (ledger.commit, ledger.release, ledger.extend):
            with pytest.raises(ValueError, match="hold must be a Hold"):
                operation("id")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="id must be"):
            ledger.hold("org", 5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="tokens, calls, nano_usd"):
            ledger.reserve("org", {"token": 10**9})
        assert ledger.balance("org")[0].held == 0

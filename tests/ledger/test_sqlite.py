"""The ledger in an SQLite file answers as the reference does."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.machine import LedgerMachine
from tests_micro import ledger_cases

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
        for ledger in made:
            ledger.close()


def test_any_history_is_as_in_memory(tmp_path: Path) -> None:
    numbers = itertools.count()

    class Machine(LedgerMachine):
        def make(self, clock: Any, keep: int) -> SqliteLedger:
            return SqliteLedger(tmp_path / f"{next(numbers)}.db", clock=clock, keep=keep)

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )

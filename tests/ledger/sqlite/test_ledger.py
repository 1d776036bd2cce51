"""Several ledgers on one SQLite file answer as the reference does."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from budget_core.ledger.errors import BudgetExceededError
from budget_cpython.ledger.sqlite import SqliteLedger, loaded_ledger
from tests.ledger.machine import LedgerMachine, paths, ttls
from tests.properties import examples


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


class TogetherMachine(LedgerMachine):
    """Any history on several ledgers of one file, each of which sweeps a few expired holds.

    A hold that is over counts as held until it is swept and as spent then, so a refusal may name
    another limit: once all are swept it must name the same one.
    """

    folder: Path
    numbers = itertools.count()

    def make(self, clock: Any, keep: int) -> Together:
        path = self.folder / f"{next(self.numbers)}.db"
        return Together([SqliteLedger(path, clock=clock, keep=keep) for _ in range(3)])

    def both(self, name: str, *args: Any, **named: Any) -> Any:
        found = self.ask(name, *args, **named)
        if all(isinstance(one, BudgetExceededError) for one in found):
            self.expire()
            return super().both(name, *args, **named)
        self.compare(found, name, *args, **named)
        return found

    @rule()
    def expire(self) -> None:
        self.reference.expire()
        self.engine.expire()  # some had expired before

    @rule(path=paths, count=st.integers(1, 6), ttl=ttls)
    def take(self, path: str, count: int, ttl: int) -> None:
        for _ in range(count):
            self.reserve(path, {"tokens": 1}, None, ttl)


@pytest.fixture
def sweeps_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_ledger, "STEP", 2)
    monkeypatch.setattr(loaded_ledger, "SWEPT", 2)
    monkeypatch.setattr(loaded_ledger, "SWEEP_EVERY", 1)
    monkeypatch.setattr(TogetherMachine, "folder", tmp_path, raising=False)


@pytest.mark.usefixtures("sweeps_a_few")
def test_any_history_of_several_ledgers_on_one_file_is_too() -> None:
    run_state_machine_as_test(TogetherMachine, settings=examples(60, stateful_step_count=40))


@pytest.mark.usefixtures("sweeps_a_few")
def test_a_refusal_among_expired_holds_is_the_same_once_they_are_swept() -> None:
    machine = TogetherMachine()
    machine.begin([("tokens", 20, "hour")])
    machine.take("org", 1, 1)
    machine.pass_time(2)
    machine.take("org/a", 1, 1)
    machine.set_limits("org/a/x", [("tokens", 5, "hour")])
    machine.take("org/a/x", 5, 1)
    machine.pass_time(1)
    machine.take("org/a", 3, 1)
    machine.take("org/a/x", 1, 1)  # one ledger has swept org/a/x only, another nothing
    machine.teardown()

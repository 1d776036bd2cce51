"""Trackers in many threads, and in ledgers in a file, count as one."""

from pathlib import Path
from typing import Any

import pytest

from budget_cpython import (
    DailyBudgetConfig,
    DailyBudgetTracker,
    Ledger,
    Limit,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.racing import in_threads

THREADS = 8
RECORDS = 100
NOON = 20_000 * 86_400 + 43_200
USAGE = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}


def spent(ledger: Any, path: str) -> dict[str, int]:
    """Return what is spent by axis."""
    return {row.axis: row.spent for row in ledger.balance(path) if row.account == path}


@pytest.mark.parametrize("alone", [True, False], ids=["a tracker each", "one tracker"])
def test_a_day_counts_every_record_of_every_thread_once(alone: bool) -> None:
    ledger = Ledger(lambda: NOON)
    config = DailyBudgetConfig(1_000_000)
    trackers = [DailyBudgetTracker(config, ledger=ledger, account="org/agent")]
    if alone:
        trackers += [
            DailyBudgetTracker(config, ledger=ledger, account="org/agent")
            for _ in range(THREADS - 1)
        ]

    numbers = iter(range(THREADS))

    def work() -> None:
        tracker = trackers[next(numbers) % len(trackers)]
        for _ in range(RECORDS):
            tracker.maybe_auto_reset()
            tracker.record(USAGE)

    in_threads(work, THREADS)
    assert spent(ledger, "org/agent") == {"tokens": THREADS * RECORDS * 3}
    for tracker in trackers:
        tracker.maybe_auto_reset()
        assert tracker.total_tokens == THREADS * RECORDS * 3


def test_turns_of_many_threads_draw_on_what_is_above_them() -> None:
    ledger = Ledger(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", None, "day"), Limit("calls", None, "day")])

    def work() -> None:
        config = TurnBudgetConfig(token_budget=30)
        tracker = TurnBudgetTracker(config, ledger=ledger, account="org/agent")
        for at in range(RECORDS):
            if at % 5 == 0:
                tracker.reset()
            tracker.maybe_auto_reset()
            assert not tracker.is_at_limit()
            tracker.record(USAGE)

    in_threads(work, THREADS)
    calls = THREADS * RECORDS
    assert spent(ledger, "org") == {"calls": calls, "tokens": calls * 3}
    assert ledger.accounts() == ["org"]


def test_a_day_in_a_file_goes_on_after_a_restart(tmp_path: Path) -> None:
    for tokens in (3, 6):
        ledger = SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON)
        tracker = DailyBudgetTracker(DailyBudgetConfig(100), ledger=ledger, account="org/agent")
        tracker.record(USAGE)
        assert tracker.total_tokens == tokens
        assert spent(ledger, "org/agent") == {"tokens": tokens}
        ledger.close()

"""Trackers shared by 64 threads that switch every microsecond."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from budget_core.daily_allowance import DailyLimitError
from budget_core.enforcement import report_limit
from budget_cpython import (
    BudgetWrapper,
    DailyAllowance,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    InMemoryBudgetStore,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from tests.racing import THREADS, in_threads, restless, unsettle
from tests_micro.script import Script, streams

__all__ = ["restless"]
DAY = 86_400
NOON = 20_000 * DAY + 43_200
ONE_TOKEN = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}


def turn(**settings: Any) -> Any:
    return unsettle(TurnBudgetTracker(TurnBudgetConfig(**settings)))


def daily(clock: Callable[[], float] = lambda: NOON, store: Any = None, **settings: Any) -> Any:
    given: Any = {"daily_budget": None, "warning_thresholds": (0.5,), "enforcement": "cutoff"}
    return unsettle(DailyBudgetTracker(DailyBudgetConfig(**(given | settings)), clock, store))


def records(tracker: Any, times: int, usage: Any = ONE_TOKEN) -> Callable[[], None]:
    def work() -> None:
        for _ in range(times):
            tracker.record(usage)

    return work


def test_a_turn_loses_no_record() -> None:
    tracker = turn()
    in_threads(records(tracker, 20))
    assert (tracker.iterations_seen, tracker.total_tokens) == (THREADS * 20, THREADS * 20)


def test_a_turn_loses_no_record_of_unclear_usage() -> None:
    tracker = turn()
    in_threads(records(tracker, 20, None))
    assert tracker.iterations_seen == THREADS * 20
    assert tracker.usage_seen["missing"] == THREADS * 20


def test_a_day_loses_no_record_and_its_file_has_them_all(tmp_path: Path) -> None:
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = daily(store=store)
    in_threads(records(tracker, 5))
    assert tracker.store_error is None
    assert tracker.total_tokens == THREADS * 5
    state = store.load()
    assert state is not None
    assert state["tokens"] == THREADS * 5


def test_a_record_is_in_the_file_when_it_returns(tmp_path: Path) -> None:
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = daily(store=store)
    lock = threading.Lock()
    acknowledged = 0

    def record_and_look() -> None:
        nonlocal acknowledged
        tracker.record(ONE_TOKEN)
        with lock:
            acknowledged += 1
            known = acknowledged
        state = store.load()
        assert state is not None
        assert state["tokens"] >= known

    in_threads(record_and_look)


@pytest.mark.parametrize("count", range(5))
def test_one_thread_gets_the_warning_of_a_threshold(count: int) -> None:
    tracker = turn(token_budget=100, warning_thresholds=(0.5,))
    tracker.record({"total_tokens": 60})
    said = in_threads(tracker.consume_threshold_warning)
    assert len([text for text in said if text]) == 1


@pytest.mark.parametrize("count", range(5))
def test_one_thread_gets_the_warning_of_the_limit_and_one_its_crossing(count: int) -> None:
    tracker = turn(token_budget=100)
    tracker.record({"total_tokens": 100})
    crossed: list[Any] = []
    wrapper = BudgetWrapper(
        Script(), tracker, on_limit_reached=lambda **event: crossed.append(event)
    )

    def tell() -> str | None:
        report_limit(wrapper)
        text: str | None = tracker.consume_at_limit_warning()
        return text

    said = in_threads(tell)
    assert len([text for text in said if text]) == 1
    assert len(crossed) == 1


def test_each_threshold_warns_once_while_threads_record() -> None:
    shares = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    tracker = daily(
        store=InMemoryBudgetStore(), daily_budget=THREADS * 10, warning_thresholds=shares
    )
    heard: Counter[str] = Counter()
    lock = threading.Lock()

    def work() -> None:
        for _ in range(10):
            tracker.record(ONE_TOKEN)
            text = tracker.consume_threshold_warning()
            if text:
                with lock:
                    heard[text.split("%")[0]] += 1

    in_threads(work)
    assert heard
    assert set(heard.values()) == {1}


def test_a_new_day_begins_once_and_keeps_what_is_recorded_after() -> None:
    now = 20_000.0 * DAY
    tracker = daily(lambda: now, InMemoryBudgetStore())

    def call() -> None:
        tracker.maybe_auto_reset()
        tracker.record(ONE_TOKEN)

    for _ in range(10):
        in_threads(call)
        assert tracker.total_tokens == THREADS
        now += DAY


def test_a_new_day_during_records_resets_only_the_old_day() -> None:
    now = 20_000.0 * DAY
    tracker = daily(lambda: now)
    recorded = 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal now, recorded
        for _ in range(10):
            tracker.maybe_auto_reset()
            tracker.record(ONE_TOKEN)
            with lock:
                recorded += 1
                if recorded == THREADS * 5:
                    now += DAY

    in_threads(work)
    assert THREADS * 4 <= tracker.total_tokens <= THREADS * 5


def test_resets_and_records_side_by_side_leave_counts_that_agree() -> None:
    tracker = turn()
    turns = iter(range(10**9))

    def work() -> None:
        if next(turns) % 32 == 0:
            tracker.reset()
        else:
            tracker.record(ONE_TOKEN)

    for _ in range(20):
        in_threads(work)
        assert tracker.iterations_seen == tracker.total_tokens


def test_wrappers_in_many_threads_share_one_budget_and_report_its_end_once(tmp_path: Path) -> None:
    hooks: Counter[str] = Counter()
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = daily(store=store, daily_budget=100)
    wrapper = BudgetWrapper(
        Script(streams(0, usage=ONE_TOKEN)),
        tracker,
        on_limit_reached=lambda scope, **_: hooks.update([scope]),
    )

    async def talk() -> list[str | None]:
        messages = [{"role": "user", "content": "?"}]
        return [(await wrapper.chat(messages)).cut_off_by for _ in range(5)]

    ends = [end for ends in in_threads(lambda: asyncio.run(talk())) for end in ends]
    assert ends.count(None) == tracker.total_tokens
    assert 100 <= tracker.total_tokens < 100 + THREADS
    assert hooks == {"daily": 1}


def test_threads_never_claim_more_than_a_day_allows() -> None:
    claimed: list[int] = []

    def work() -> None:
        for _ in range(20):
            with suppress(DailyLimitError):
                allowance.claim(seconds=3)
                claimed.append(3)

    store = InMemoryBudgetStore()
    allowance = unsettle(DailyAllowance("water", {"seconds": 100}, store, clock=lambda: NOON))
    in_threads(work)
    assert sum(claimed) == 99
    assert store.load() == {"seconds": 99, "day": NOON // DAY, "behind": 0}

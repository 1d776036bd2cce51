"""Trackers shared by 64 threads that switch every microsecond.

A thread switches only between certain instructions, so a race may need years to show. The trackers
here invite the switch: wherever a count is read or written, the reading or writing thread yields.
"""

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_core import ChatResponse
from budget_cpython import (
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    InMemoryBudgetStore,
    TurnBudgetConfig,
    TurnBudgetTracker,
)

THREADS = 64
DAY = 86_400
ONE_TOKEN = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}


class Yielding:
    """An attribute where the thread that reads or writes it lets another one run."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        value = instance.__dict__[self._name]
        time.sleep(0)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        time.sleep(0)
        instance.__dict__[self._name] = value


class Turn(TurnBudgetTracker):
    iterations_seen: Any = Yielding()
    total_tokens: Any = Yielding()
    last_consumed_threshold: Any = Yielding()


class Daily(DailyBudgetTracker):
    iterations_seen: Any = Yielding()
    total_tokens: Any = Yielding()
    last_consumed_threshold: Any = Yielding()


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[], object], count: int = THREADS) -> list[Any]:
    """Return what `work` returns in each of many threads that begin together."""
    results: list[Any] = []
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        try:
            results.append(work())
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == count, "a thread hangs"
    assert not [result for result in results if isinstance(result, BaseException)]
    return results


def daily_config(**changes: Any) -> DailyBudgetConfig:
    given = {"daily_budget": 1000, "warning_thresholds": (0.5,), "enforcement": "cutoff"}
    return DailyBudgetConfig(**{**given, **changes})


def test_a_turn_loses_no_record() -> None:
    tracker = Turn()
    in_threads(lambda: [tracker.record(ONE_TOKEN) for _ in range(20)])
    assert (tracker.iterations_seen, tracker.total_tokens) == (THREADS * 20, THREADS * 20)


def test_a_turn_loses_no_record_of_unclear_usage() -> None:
    tracker = Turn()
    in_threads(lambda: [tracker.record(None) for _ in range(20)])
    assert tracker.iterations_seen == THREADS * 20
    assert tracker.unclear_usage["missing"] == THREADS * 20


def test_a_day_loses_no_record_and_its_file_has_them_all(tmp_path: Path) -> None:
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = Daily(daily_config(daily_budget=None), store=store)
    in_threads(lambda: [tracker.record(ONE_TOKEN) for _ in range(5)])
    assert tracker.store_error is None
    assert tracker.total_tokens == THREADS * 5
    state = store.load()
    assert state is not None
    assert state["total_tokens"] == THREADS * 5


def test_what_a_record_returned_from_is_in_the_file(tmp_path: Path) -> None:
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = Daily(daily_config(daily_budget=None), store=store)
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
        assert state["total_tokens"] >= known

    in_threads(record_and_look)


@pytest.mark.parametrize("count", range(5))
def test_one_thread_gets_the_warning_of_a_threshold(count: int) -> None:
    tracker = Turn(TurnBudgetConfig(token_budget=100, warning_thresholds=(0.5,)))
    tracker.record({"total_tokens": 60})
    said = in_threads(tracker.consume_threshold_warning)
    assert len([text for text in said if text]) == 1


@pytest.mark.parametrize("count", range(5))
def test_one_thread_gets_the_warning_of_the_limit_and_one_its_crossing(count: int) -> None:
    tracker = Turn(TurnBudgetConfig(token_budget=100))
    tracker.record({"total_tokens": 100})
    said = in_threads(
        lambda: (tracker.consume_at_limit_warning(), tracker.consume_limit_crossing())
    )
    assert len([text for text, _ in said if text]) == 1
    assert len([crossed for _, crossed in said if crossed]) == 1


def test_each_threshold_speaks_once_while_threads_record() -> None:
    shares = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    config = daily_config(daily_budget=THREADS * 10, warning_thresholds=shares)
    tracker = Daily(config, store=InMemoryBudgetStore())
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
    tracker = Daily(daily_config(daily_budget=None), clock=lambda: now, store=InMemoryBudgetStore())

    def call() -> None:
        tracker.maybe_auto_reset()
        tracker.record(ONE_TOKEN)

    for _ in range(20):
        in_threads(call)
        assert tracker.total_tokens == THREADS
        now += DAY


def test_a_new_day_in_the_midst_of_records_forgets_only_the_old_one() -> None:
    ticks = iter(range(10**9))
    tracker = Daily(
        daily_config(daily_budget=None),
        clock=lambda: 20_000.0 * DAY + (DAY if next(ticks) > THREADS * 5 else 0),
    )
    after: list[int] = []

    def work() -> None:
        for _ in range(10):
            tracker.maybe_auto_reset()
            tracker.record(ONE_TOKEN)
            after.append(tracker.total_tokens)

    in_threads(work)
    assert 0 < tracker.total_tokens <= THREADS * 10
    assert tracker.total_tokens >= THREADS * 5 - 1


def test_a_reset_and_records_side_by_side_leave_counts_that_agree() -> None:
    tracker = Turn()
    turns = iter(range(10**9))

    def work() -> None:
        for _ in range(10):
            tracker.reset() if next(turns) % 7 == 0 else tracker.record(ONE_TOKEN)

    in_threads(work)
    assert tracker.iterations_seen == tracker.total_tokens


class Model:
    """A provider that reports one token a call."""

    def get_default_model(self) -> str:
        return "small"

    async def chat(self, **options: Any) -> ChatResponse:
        await asyncio.sleep(0)
        return ChatResponse("yes", usage=dict(ONE_TOKEN))


def test_wrappers_in_many_threads_share_one_budget_and_report_its_end_once(tmp_path: Path) -> None:
    hooks: Counter[str] = Counter()
    store = FileBudgetStore(tmp_path / "state.json")
    tracker = DailyBudgetTracker(daily_config(daily_budget=100), store=store)
    wrapper = BudgetWrapper(
        Model(), tracker, on_limit_reached=lambda scope, **_: hooks.update([scope])
    )

    async def talk() -> list[str | None]:
        messages = [{"role": "user", "content": "?"}]
        return [(await wrapper.chat(messages)).cut_off_by for _ in range(5)]

    ends = [end for ends in in_threads(lambda: asyncio.run(talk())) for end in ends]
    assert ends.count(None) == tracker.total_tokens
    assert 100 <= tracker.total_tokens < 100 + THREADS
    assert hooks == {"daily": 1}

"""A count stored ahead of itself: fewer writes, and never too little after a crash."""

from budget_core import DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from tests_micro.support import FakeClock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY


class CountingStore(InMemoryBudgetStore):
    """A store in memory that counts what is written, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.saves = 0
        self.error: Exception | None = None

    def save(self, state: "dict[str, Any]") -> None:
        if self.error is not None:
            raise self.error
        self.saves += 1
        super().save(state)

    def covers(self) -> int:
        state = self.load() or {"tokens": 0, "ahead": 0}
        return int(state["tokens"] + state["ahead"])


def day_of(store: "Any", write_ahead: int, now: float = MIDNIGHT, cap: int = 10_000) -> "Any":
    config = DailyBudgetConfig(daily_budget=cap)
    clock = FakeClock(now)
    tracker: Any = DailyBudgetTracker(config, clock, store, write_ahead=write_ahead)
    tracker.clock = clock
    return tracker


def call(tracker: "Any", count: int) -> None:
    """Do as a wrapper does for a call: ask, then record."""
    tracker.maybe_auto_reset()
    tracker.record({"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count})


def test_without_it_every_record_is_written() -> None:
    store = CountingStore()
    tracker = day_of(store, 0)
    for number in range(1, 6):
        call(tracker, 7)
        assert store.saves == number
        assert store.load() == dict(store.load() or {}, tokens=7 * number, ahead=0)


def test_with_it_a_record_is_written_when_the_stored_count_is_used_up() -> None:
    for ahead, most in ((100, 21), (1000, 3)):
        store = CountingStore()
        tracker = day_of(store, ahead)
        for _ in range(100):
            call(tracker, 10)
        assert tracker.total_tokens == 1000
        assert 1000 // ahead <= store.saves <= most, (ahead, store.saves)


def test_what_is_stored_is_never_less_than_what_was_recorded() -> None:
    for ahead in (0, 1, 2, 3, 10, 100):
        store = CountingStore()
        tracker = day_of(store, ahead)
        for number in range(200):
            call(tracker, number * 7 % 23)
            assert tracker.total_tokens <= store.covers() <= tracker.total_tokens + ahead


def test_a_call_of_half_of_it_is_covered_before_it_is_made() -> None:
    for ahead in (2, 3, 10, 100):
        store = CountingStore()
        tracker = day_of(store, ahead)
        for number in range(200):
            tracker.maybe_auto_reset()
            assert store.covers() >= tracker.total_tokens + ahead // 2, (ahead, number)
            tracker.record({"total_tokens": number * 7 % (2 * ahead)})


def test_a_restart_after_a_crash_counts_at_most_so_much_too_much() -> None:
    for ahead in (1, 10, 100):
        store = CountingStore()
        tracker = day_of(store, ahead)
        for number in range(50):
            call(tracker, number % 13)
            restarted = day_of(store, ahead)
            over = restarted.total_tokens - tracker.total_tokens
            assert 0 <= over <= ahead, (ahead, number)


def test_two_crashes_count_at_most_twice_as_much_too_much() -> None:
    for ahead in (1, 10, 100):
        store = CountingStore()
        call(day_of(store, ahead), 7)
        day_of(store, ahead).maybe_auto_reset()
        assert 7 <= day_of(store, ahead).total_tokens <= 7 + 2 * ahead


def test_a_restart_writes_before_the_first_call_and_not_sooner() -> None:
    store = CountingStore()
    call(day_of(store, 100), 7)
    before = store.saves
    tracker = day_of(store, 100)
    assert store.saves == before
    tracker.maybe_auto_reset()
    assert store.saves == before + 1


def test_a_flush_stores_the_exact_count() -> None:
    store = CountingStore()
    tracker = day_of(store, 100)
    call(tracker, 7)
    tracker.flush()
    assert day_of(store, 100).total_tokens == 7
    call(tracker, 7)
    assert store.covers() >= 14


def test_a_flush_without_a_store_does_nothing() -> None:
    tracker = day_of(None, 100)
    call(tracker, 7)
    tracker.flush()
    assert tracker.total_tokens == 7


def test_a_new_day_is_written_at_once() -> None:
    store = CountingStore()
    tracker = day_of(store, 100)
    call(tracker, 7)
    tracker.clock.advance(DAY)
    tracker.maybe_auto_reset()
    assert day_of(store, 100, MIDNIGHT + DAY).total_tokens <= 100
    assert store.load() == dict(store.load() or {}, day=19_676, tokens=0)


def test_what_was_told_is_written_at_once() -> None:
    store = CountingStore()
    tracker = day_of(store, 1000, cap=10)
    call(tracker, 10)
    before = store.saves
    assert tracker.consume_at_limit_warning()
    assert store.saves == before + 1


def test_a_store_that_fails_denies_and_is_written_when_it_works_again() -> None:
    store = CountingStore()
    tracker = day_of(store, 10)
    call(tracker, 4)
    store.error = OSError(28)
    tracker.record({"total_tokens": 30})
    assert tracker.is_at_limit()
    assert tracker.total_tokens == 34
    store.error = None
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()
    assert store.covers() == 44


def test_it_is_a_whole_number_of_tokens() -> None:
    for value in (-1, 0.5, None, "1", True, float("nan")):
        error = raises(ValueError, DailyBudgetTracker, write_ahead=value)
        assert "write_ahead" in str(error), value

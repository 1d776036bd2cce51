"""A count stored ahead of itself: fewer writes, and never too little after a crash."""

from budget_core import DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from budget_core.wall_clock import BUILT, WallClock
from tests_micro.support import FakeClock, RecordingLock, raises

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
        assert store.saves == number + 1  # one before the first call, to show that it works
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


def test_after_a_flush_the_next_record_is_stored_again() -> None:
    store = CountingStore()
    tracker = day_of(store, 100)
    call(tracker, 7)
    assert tracker.flush() is True
    tracker.record({"total_tokens": 1})
    assert store.covers() >= 8


def test_after_a_flush_the_next_call_is_covered_again() -> None:
    store = CountingStore()
    tracker = day_of(store, 100)
    call(tracker, 7)
    tracker.flush()
    tracker.maybe_auto_reset()
    assert store.covers() >= 57


def test_a_flush_without_a_store_does_nothing_and_says_so() -> None:
    tracker = day_of(None, 100)
    call(tracker, 7)
    assert tracker.flush() is False
    assert tracker.store_error is None
    assert not tracker.is_at_limit()
    assert tracker.total_tokens == 7


def test_a_flush_while_the_store_cannot_be_read_does_not_write_over_it() -> None:
    class Unreadable(CountingStore):
        def load(self) -> "dict[str, Any] | None":
            raise OSError(5)

    store = Unreadable()
    tracker = day_of(store, 100)
    tracker.record({"total_tokens": 5})
    assert tracker.flush() is False
    assert store.saves == 0


def test_a_flush_of_what_is_stored_writes_nothing() -> None:
    for ahead in (0, 100):
        store = CountingStore()
        tracker = day_of(store, ahead)
        call(tracker, 7)
        assert tracker.flush()
        saves = store.saves
        assert tracker.flush()
        assert store.saves == saves, ahead
        call(tracker, 7)
        assert tracker.flush()
        assert day_of(store, ahead).total_tokens == 14


def test_a_flush_is_under_the_trackers_lock() -> None:
    lock = RecordingLock()
    store = CountingStore()
    tracker = DailyBudgetTracker(DailyBudgetConfig(), FakeClock(MIDNIGHT), store, lock, 100)
    taken = lock.taken
    tracker.flush()
    assert lock.taken == taken + 1


def test_an_error_that_is_over_costs_no_further_writes() -> None:
    for ahead in (0, 100):
        store = CountingStore()
        tracker = day_of(store, ahead)
        call(tracker, 1)
        store.error = OSError(28)
        tracker.record({"total_tokens": 200})
        store.error = None
        tracker.maybe_auto_reset()
        saves = store.saves
        for _ in range(20):
            tracker.maybe_auto_reset()
        assert store.saves == saves, ahead


def test_every_record_is_stored_after_one_that_could_not_be() -> None:
    store = CountingStore()
    tracker = day_of(store, 100)
    call(tracker, 1)
    store.error = OSError(28)
    tracker.record({"total_tokens": 200})
    store.error = None
    tracker.record({"total_tokens": 1})
    assert store.covers() >= 202


def test_a_call_that_is_denied_writes_nothing() -> None:
    for clock in (FakeClock(MIDNIGHT), WallClock(FakeClock(5)), WallClock(FakeClock(BUILT))):
        for ahead in (0, 100):
            store = CountingStore()
            tracker = DailyBudgetTracker(DailyBudgetConfig(10), clock, store, None, ahead)
            call(tracker, 10)
            tracker.maybe_auto_reset()
            saves = store.saves
            for _ in range(100):
                tracker.maybe_auto_reset()
                assert tracker.is_at_limit()
            assert store.saves == saves, ahead


def test_a_clock_behind_its_day_costs_one_write() -> None:
    store = CountingStore()
    state = {"day": BUILT // DAY + 100, "tokens": 10, "behind": 0}
    store.save(dict(state, ahead=0, warned=0, announced=0))
    tracker = DailyBudgetTracker(DailyBudgetConfig(10), WallClock(FakeClock(BUILT)), store)
    saves = store.saves
    for _ in range(100):
        tracker.maybe_auto_reset()
    assert store.saves == saves + 1
    assert (store.load() or {})["behind"] == 2 * (BUILT // 3600)


def test_a_store_that_cannot_be_written_lets_no_call_go_after_a_start() -> None:
    for ahead in (0, 100):
        store = CountingStore()
        store.error = OSError(28)
        for _ in range(20):
            tracker = day_of(store, ahead)
            tracker.maybe_auto_reset()
            assert tracker.is_at_limit(), ahead


def test_an_allowance_is_not_stored_ahead() -> None:
    store = CountingStore()
    store.allowance = 40  # type: ignore[attr-defined]
    store.save({"foreign": 1})
    day_of(store, 50, cap=100)
    assert day_of(store, 50, cap=100).total_tokens == 60


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

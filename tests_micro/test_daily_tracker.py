"""What a day has used, which models count, and when the next day begins."""

from budget_core import DailyBudgetConfig, DailyBudgetTracker
from budget_core.tracker import BudgetTracker
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY


def tokens(count: int) -> "dict[str, int]":
    return {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}


def tracker_with(used: int = 0, clock: "FakeClock | None" = None, **config: "Any") -> "Any":
    tracker = DailyBudgetTracker(DailyBudgetConfig(**config), clock or FakeClock(MIDNIGHT))
    if used:
        tracker.record(tokens(used), "big")
    return tracker


def used_at(tracker: "Any", clock: "FakeClock", now: float) -> int:
    """Return what counts as used once the clock shows that time."""
    clock.now = now
    tracker.maybe_auto_reset()
    return int(tracker.total_tokens)


def test_a_daily_tracker_is_a_budget_tracker_of_scope_daily() -> None:
    tracker = DailyBudgetTracker()
    assert isinstance(tracker, BudgetTracker)
    assert tracker.SCOPE == "daily"
    assert tracker.config.__dict__ == DailyBudgetConfig().__dict__


def test_a_day_speaks_of_tokens() -> None:
    assert tracker_with(30, daily_budget=100).dominant_axis() == (30, 100, "tokens")
    assert tracker_with(0, daily_budget=100).dominant_axis() == (0, 100, "tokens")


def test_a_day_without_a_cap_speaks_of_tokens_too() -> None:
    assert tracker_with(30, daily_budget=None).dominant_axis() == (30, None, "tokens")


def test_a_day_is_spent_at_its_cap() -> None:
    for used, at_limit in ((99, False), (100, True), (101, True)):
        assert tracker_with(used, daily_budget=100).is_at_limit() is at_limit, used


def test_calls_alone_never_use_a_day_up() -> None:
    tracker = tracker_with(daily_budget=100)
    for _ in range(1000):
        tracker.record(tokens(0))
    assert tracker.utilization() == 0
    assert not tracker.is_at_limit()


def test_a_day_of_zero_is_nothing_and_one_of_none_unlimited() -> None:
    assert tracker_with(daily_budget=0).is_at_limit()
    assert tracker_with(daily_budget=0).utilization() == 1
    unlimited = tracker_with(10**12, daily_budget=None)
    assert not unlimited.is_at_limit()
    assert unlimited.utilization() == 0


def test_a_days_thresholds_fire_once_the_highest_first() -> None:
    tracker = tracker_with(daily_budget=100, warning_thresholds=(0.5, 0.8))
    told = []
    for _ in range(10):
        tracker.record(tokens(9))
        told.append(tracker.last_consumed_threshold if tracker.consume_threshold_warning() else 0)
    assert told == [0, 0, 0, 0, 0, 0.5, 0, 0, 0.8, 0]
    late = tracker_with(85, daily_budget=100, warning_thresholds=(0.5, 0.8))
    assert "85%" in late.consume_threshold_warning()
    assert not late.consume_threshold_warning()


def test_a_spent_day_tells_no_threshold_unless_forced() -> None:
    tracker = tracker_with(100, daily_budget=100, warning_thresholds=(0.5, 0.8))
    assert tracker.consume_threshold_warning() is None
    assert "100%" in tracker.consume_threshold_warning(force=True)
    assert tracker.last_consumed_threshold == 0.8


def test_a_day_warns_of_nothing_by_default() -> None:
    tracker = tracker_with(99, daily_budget=100)
    assert tracker.consume_threshold_warning() is None


def test_a_day_never_strips_tools() -> None:
    assert tracker_with(100, daily_budget=100).should_strip_tools() is False


def test_without_primary_models_every_models_tokens_count() -> None:
    tracker = tracker_with(fallback_model="small")
    for model in ("big", "small", None):
        tracker.record(tokens(5), model)
    assert tracker.total_tokens == 15


def test_with_primary_models_only_theirs_count() -> None:
    tracker = tracker_with(primary_models=("big", "huge"))
    models: list[Any] = ["big", "huge", "small", "BIG", "bi", "", None, 5, ["big"], {}]
    for model in models:
        tracker.record(tokens(5), model)
    assert tracker.total_tokens == 10


def test_the_fallback_models_tokens_never_count_beside_primary_models() -> None:
    tracker = tracker_with(primary_models=("big", "small"), fallback_model="small")
    tracker.record(tokens(5), "small")
    assert tracker.total_tokens == 0
    tracker.record(tokens(5), "big")
    assert tracker.total_tokens == 5


def test_the_day_rolls_over_at_its_reset_hour() -> None:
    for hour in range(24):
        for start in (0, 1, 12 * 3600, DAY - 1):
            clock = FakeClock(MIDNIGHT + start)
            tracker = tracker_with(7, clock, reset_hour_utc=hour)
            end = MIDNIGHT + hour * 3600 + (DAY if start >= hour * 3600 else 0)
            assert used_at(tracker, clock, end - 1) == 7, (hour, start)
            assert used_at(tracker, clock, end) == 0, (hour, start)


def test_each_later_day_rolls_over_at_the_same_hour() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(7, clock, reset_hour_utc=5)
    for day in range(3):
        end = MIDNIGHT + day * DAY + 5 * 3600
        assert used_at(tracker, clock, end - 1) == 7, day
        assert used_at(tracker, clock, end) == 0, day
        tracker.record(tokens(7))


def test_several_days_without_a_call_roll_over_once() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(7, clock)
    assert used_at(tracker, clock, MIDNIGHT + 9 * DAY + 5) == 0
    tracker.record(tokens(3))
    assert used_at(tracker, clock, MIDNIGHT + 10 * DAY - 1) == 3
    assert used_at(tracker, clock, MIDNIGHT + 10 * DAY) == 0


def test_a_count_stays_until_somebody_asks_for_the_day() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(7, clock)
    clock.advance(2 * DAY)
    assert tracker.total_tokens == 7


def test_the_day_never_moves_back() -> None:
    for back in (1, 3600, DAY, 30 * DAY, MIDNIGHT):
        clock = FakeClock(MIDNIGHT)
        tracker = tracker_with(7, clock)
        assert used_at(tracker, clock, MIDNIGHT - back) == 7, back
        assert used_at(tracker, clock, MIDNIGHT) == 7, back
        assert used_at(tracker, clock, MIDNIGHT + DAY - 1) == 7, back
        assert used_at(tracker, clock, MIDNIGHT + DAY) == 0, back


def test_setting_the_clock_forward_and_back_gives_one_day_and_no_second() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(7, clock)
    assert used_at(tracker, clock, MIDNIGHT + DAY) == 0
    tracker.record(tokens(5))
    for now in (MIDNIGHT, MIDNIGHT + DAY, MIDNIGHT - 5 * DAY, MIDNIGHT + DAY + 5):
        assert used_at(tracker, clock, now) == 5, now


def test_a_new_day_begins_with_every_warning_armed() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(0, clock, daily_budget=10, warning_thresholds=(0.5,))
    for day in range(3):
        used_at(tracker, clock, MIDNIGHT + day * DAY)
        assert tracker.last_consumed_threshold is None, day
        tracker.record(tokens(5))
        assert tracker.consume_threshold_warning(), day
        tracker.record(tokens(5))
        assert tracker.consume_at_limit_warning(), day
        assert not tracker.consume_at_limit_warning(), day


def test_a_reset_begins_the_same_day_again() -> None:
    clock = FakeClock(MIDNIGHT)
    tracker = tracker_with(7, clock)
    tracker.reset()
    assert tracker.total_tokens == 0
    tracker.record(tokens(3))
    assert used_at(tracker, clock, MIDNIGHT + DAY - 1) == 3


def test_the_clock_may_give_fractions() -> None:
    clock = FakeClock(DAY + 0.5)  # of 1970: floats of 32 bits hold no later fractions
    tracker = tracker_with(7, clock)
    assert used_at(tracker, clock, 2 * DAY - 0.25) == 7
    assert used_at(tracker, clock, 2 * DAY + 0.25) == 0

"""A tracker's alert is never off while something is due."""

from budget_core import (
    DailyBudgetConfig,
    DailyBudgetTracker,
    InMemoryBudgetStore,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CAPS = (None, 0, 1, 3, 7, 10, 100, 1_500_000)
THRESHOLDS = ((), (0,), (0.5, 0.8, 0.9), (0.9, 0.1, 0.1), (0.3, 0.7, 1.0), (0.29, 0.333333, 1 / 3))
STRIPS = (None, 0, 0.3, 0.95, 1)


def dice(seed: int) -> "Callable[[int], int]":
    """Return a roll: the same numbers, each below its argument, on both runtimes."""
    state = [seed]

    def roll(sides: int) -> int:
        state[0] = (state[0] * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return (state[0] >> 8) % sides

    return roll


def alert_of(tracker: "Any") -> bool:
    """Return what the wrapper looks at before each call."""
    return bool(tracker.alert)


def tokens(count: int) -> "dict[str, int]":
    return {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}


def check_due(tracker: "Any", roll: "Callable[[int], int]", case: object) -> None:
    """Check the alert against what the methods say, some of which this consumes."""
    alert = alert_of(tracker)
    due = [tracker.is_at_limit(), tracker.should_strip_tools()]
    if roll(2):
        due.append(tracker.consume_threshold_warning(force=roll(4) == 0))
    if roll(3) == 0:
        due.append(tracker.consume_at_limit_warning())
    assert alert or not any(due), (case, due)


def amount(roll: "Callable[[int], int]", cap: int | None) -> int:
    return roll(max(cap or 10, 4) // (1 + roll(6)) + 1)


def test_a_turns_alert_is_on_whenever_something_is_due() -> None:
    for seed in range(400):
        roll = dice(seed)
        caps = CAPS[roll(8)], CAPS[roll(8)]
        config = TurnBudgetConfig(
            iteration_budget=caps[0],
            token_budget=caps[1],
            warning_thresholds=THRESHOLDS[roll(6)],
            tool_strip_threshold=STRIPS[roll(5)],
        )
        tracker = TurnBudgetTracker(config)
        for step in range(20):
            check_due(tracker, roll, (seed, step, config))
            if roll(12) == 0:
                tracker.reset()
            else:
                tracker.record(tokens(amount(roll, caps[1])))


def test_a_days_alert_is_on_whenever_something_is_due() -> None:
    for seed in range(400):
        roll = dice(seed)
        cap = CAPS[roll(8)]
        config = DailyBudgetConfig(
            daily_budget=cap, warning_thresholds=THRESHOLDS[roll(6)], reset_hour_utc=roll(24)
        )
        clock = FakeClock(19_675 * 86_400)
        store = InMemoryBudgetStore()
        tracker = DailyBudgetTracker(config, clock, store)
        for step in range(20):
            check_due(tracker, roll, (seed, step, config))
            chance = roll(12)
            if chance == 0:
                tracker.reset()
            elif chance == 1:
                tracker = DailyBudgetTracker(config, clock, store)
            elif chance < 4:
                clock.advance(roll(30) * 3600)
                tracker.maybe_auto_reset()
            else:
                tracker.record(tokens(amount(roll, cap)))


def test_an_alert_is_on_at_a_threshold_of_nothing_without_any_cap() -> None:
    config = TurnBudgetConfig(iteration_budget=None, token_budget=None, warning_thresholds=(0,))
    tracker = TurnBudgetTracker(config)
    assert alert_of(tracker) or tracker.consume_threshold_warning() is None


def test_an_alert_is_on_when_tools_are_stripped_from_the_start() -> None:
    for cap in (None, 0, 10):
        config = TurnBudgetConfig(iteration_budget=cap, token_budget=None, tool_strip_threshold=0)
        tracker = TurnBudgetTracker(config)
        assert alert_of(tracker) or not tracker.should_strip_tools(), cap


def test_an_alert_is_on_just_below_and_at_a_threshold_of_a_huge_cap() -> None:
    for share in (0.3, 0.5, 0.7, 0.8, 0.9):
        for below in range(0, 300, 7):
            config = TurnBudgetConfig(
                iteration_budget=None, token_budget=1 << 40, warning_thresholds=(share,)
            )
            tracker = TurnBudgetTracker(config)
            tracker.record(tokens((1 << 40) * int(share * 10) // 10 - below))
            assert alert_of(tracker) or not tracker.consume_threshold_warning(), (share, below)


def test_an_alert_goes_off_once_nothing_more_is_due() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=10))
    alerts = []
    for _ in range(9):
        tracker.record(None)
        alerts.append(alert_of(tracker))
        tracker.consume_threshold_warning()
        assert not alert_of(tracker), tracker.iterations_seen
    assert alerts == [False, False, False, False, True, False, False, True, True]


def test_an_alert_stays_on_at_the_limit_until_the_reset() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=2))
    for _ in range(2):
        tracker.record(None)
    tracker.consume_threshold_warning(force=True)
    tracker.consume_at_limit_warning()
    tracker.record(None)
    assert alert_of(tracker)
    tracker.reset()
    assert not alert_of(tracker)


def test_an_alert_is_on_while_the_store_fails() -> None:
    class Broken:
        def load(self) -> None:
            return None

        def save(self, state: object) -> None:
            raise OSError(28)

        def clear(self) -> None:
            return None

    tracker = DailyBudgetTracker(DailyBudgetConfig(), FakeClock(0), Broken())
    tracker.record(tokens(1))
    assert tracker.is_at_limit()
    assert alert_of(tracker)
    tracker.maybe_auto_reset()
    assert tracker.is_at_limit()
    assert alert_of(tracker)


def test_an_alert_is_on_after_a_restart_of_a_spent_day() -> None:
    store, clock = InMemoryBudgetStore(), FakeClock(0)
    config = DailyBudgetConfig(daily_budget=10)
    DailyBudgetTracker(config, clock, store).record(tokens(10))
    assert alert_of(DailyBudgetTracker(config, clock, store))

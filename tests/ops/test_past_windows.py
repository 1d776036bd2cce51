"""What was spent window by window."""

from budget_core.ledger.hold import Balance
from budget_cpython.ops.past_windows import past_windows

DAY = 86_400
NOW = 19_700 * DAY


def row(days_ago: int, spent: int, window: str = "day") -> Balance:
    begins_at = NOW - days_ago * DAY
    return Balance("org", "calls", window, 100, spent, 0, begins_at, begins_at + DAY)


def test_windows_in_which_nothing_was_counted_are_nothing_in_a_series() -> None:
    (one,) = past_windows([row(0, 5)], [row(1, 7), row(4, 3)])
    assert [past.spent for past in one.past] == [7, 3]
    assert one.series() == [3, 0, 0, 7, 5]


def test_a_series_ends_with_the_current_window_and_is_not_long() -> None:
    (one,) = past_windows([row(0, 5)], [row(1, 7), row(400, 3)])
    series = one.series()
    assert len(series) == 48
    assert series[-2:] == [7, 5]
    assert past_windows([row(0, 5)], [])[0].series() == [5]


def test_a_rolling_window_has_its_buckets() -> None:
    window = "rolling 86400/24"
    past = [row(1, 7, window), row(2, 0, window), row(4, 3, window)]
    (one,) = past_windows([row(0, 12, window)], past)
    assert one.is_rolling
    assert one.series() == [3, 7]


def test_limits_are_sorted_and_apart() -> None:
    hour = Balance("org", "calls", "hour", 100, 1, 0, NOW, NOW + 3600)
    found = past_windows([hour, row(0, 5)], [row(1, 7)])
    assert [(one.now.window, len(one.past)) for one in found] == [("day", 1), ("hour", 0)]

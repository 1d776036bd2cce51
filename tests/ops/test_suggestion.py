"""Limits from what was spent."""

import pytest

from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import HourOfUsage
from budget_cpython.ops.past_windows import PastWindows
from budget_cpython.ops.suggestion import LimitSuggestion, round_up, suggest_daily, suggest_limit

DAY = 86_400
NOW = 19_700 * DAY


def windows(spent: list[int], window: str = "day", limit: int | None = 1000) -> PastWindows:
    def row(at: int, amount: int) -> Balance:
        begins_at = NOW - at * DAY
        resets_at = None if window == "run" else begins_at + DAY
        return Balance("org", "calls", window, limit, amount, 0, begins_at, resets_at)

    return PastWindows(row(0, 5), [row(at, amount) for at, amount in enumerate(spent, 1)])


def suggested(spent: list[int]) -> LimitSuggestion:
    found = suggest_limit(windows(spent))
    assert found is not None
    return found


def test_few_windows_are_covered_by_the_highest_with_headroom() -> None:
    found = suggested([100, 0, 300, 200, 500, 400])
    assert (found.windows, found.median, found.highest) == (5, 300, 500)
    assert (found.suggested, found.refused, found.beyond) == (630, 0, 0)  # 625, to two digits


def test_one_runaway_in_twenty_does_not_raise_the_limit() -> None:
    found = suggested([100] * 19 + [9_000])
    assert (found.suggested, found.highest) == (130, 9_000)
    assert (found.refused, found.beyond) == (1, 8_870)
    assert suggested([100] * 18 + [9_000]).suggested == 12_000


@pytest.mark.parametrize("window", ["run", "rolling 86400/24"])
def test_a_window_without_a_past_has_no_suggestion(window: str) -> None:
    assert suggest_limit(windows([100] * 9, window)) is None


def test_less_than_five_windows_with_usage_are_too_few() -> None:
    assert suggest_limit(windows([100] * 4 + [0] * 9)) is None


@pytest.mark.parametrize(
    ("amount", "rounded"), [(0, 0), (7, 7), (99, 99), (101, 110), (123_456, 130_000), (120, 120)]
)
def test_an_amount_is_rounded_up_to_two_digits(amount: int, rounded: int) -> None:
    assert round_up(amount) == rounded


def test_usage_suggests_dollars_and_tokens_a_day_for_each_account_above_it() -> None:
    rows = [
        HourOfUsage(NOW - day * DAY + hour * 3600, path, "m", "", {"nano_usd": 10, "calls": 1})
        for day in range(6)  # the first of them is today, which does not count
        for hour in (1, 5)
        for path in ("org/a", "org/b")
    ]
    found = suggest_daily(rows, NOW + 3600)
    assert {path: [one.axis for one in rows] for path, rows in found.items()} == {
        "org": ["nano_usd"],
        "org/a": ["nano_usd"],
        "org/b": ["nano_usd"],
    }
    assert (found["org"][0].windows, found["org"][0].highest, found["org"][0].suggested) == (
        5,
        40,
        50,
    )
    assert found["org/a"][0].is_new

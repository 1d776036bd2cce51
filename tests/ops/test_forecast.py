"""How near a limit is to its end, and when it will be empty."""

import pytest

from budget_core.ledger.hold import Balance
from budget_cpython.ops.forecast import FINE, NEAR, OVER, LimitStatus, limit_status

BEGINS = 1_700_006_400
DAY = 86_400
HOUR = 3600


def balance(
    spent: int, limit: int | None, window: str = "day", held: int = 0, begins_at: int = BEGINS
) -> Balance:
    resets_at = None if window == "run" else begins_at + DAY
    return Balance("org", "tokens", window, limit, spent, held, begins_at, resets_at)


def at(hours: float, spent: int, limit: int | None = 1000) -> LimitStatus:
    return limit_status(balance(spent, limit), BEGINS + int(hours * HOUR))


@pytest.mark.parametrize(
    ("spent", "limit", "state", "percent"),
    [
        (0, 1000, FINE, 0),
        (799, 1000, FINE, 79),
        (800, 1000, NEAR, 80),
        (999, 1000, NEAR, 99),
        (1000, 1000, OVER, 100),
        (2500, 1000, OVER, 250),
        (0, 0, FINE, 0),
        (1, 0, OVER, 100),
        (10**18, None, FINE, None),
    ],
)
def test_the_state_follows_what_is_spent(
    spent: int, limit: int | None, state: str, percent: int | None
) -> None:
    found = at(12, spent, limit)
    assert (found.state, found.percent) == (state, percent)


def test_what_is_held_alone_makes_nothing_over() -> None:
    assert limit_status(balance(0, 1000, held=1000), BEGINS + HOUR).state == FINE


def test_the_rate_of_a_window_says_when_it_will_be_empty() -> None:
    found = at(6, 500)  # 83 an hour: 500 more take six hours
    assert (found.rate, found.empty_at) == (83, BEGINS + 12 * HOUR)
    assert found.ends_early


def test_the_time_is_rounded_up_to_a_second() -> None:
    found = at(1, 999, 1000)
    assert found.empty_at == BEGINS + HOUR + 4  # 3.6 seconds


def test_a_limit_that_lasts_until_its_reset_does_not_end_early() -> None:
    found = at(12, 500)
    assert found.empty_at == BEGINS + DAY
    assert not found.ends_early


@pytest.mark.parametrize(
    ("hours", "spent"),
    [(299 / HOUR, 900), (2, 99), (2, 0), (2, 1000), (2, 2000)],
    ids=["too early", "too little", "nothing", "over", "far over"],
)
def test_no_forecast_is_made(hours: float, spent: int) -> None:
    found = at(hours, spent)
    assert found.empty_at is None
    assert not found.ends_early


def test_forecasts_begin_after_five_minutes_and_at_a_tenth() -> None:
    assert at(300 / HOUR, 100).ends_early


def test_a_clock_before_the_window_makes_no_forecast() -> None:
    assert at(-1, 500).rate is None


def test_an_unlimited_axis_has_a_rate_and_no_end() -> None:
    found = at(10, 500, None)
    assert (found.rate, found.empty_at) == (50, None)


def test_a_window_that_never_ends_needs_a_rate() -> None:
    row = balance(500, 1000, "run", begins_at=0)
    assert limit_status(row, BEGINS) == LimitStatus(row, 50, FINE, None, None)
    found = limit_status(row, BEGINS, rate=250)
    assert (found.rate, found.empty_at, found.ends_early) == (250, BEGINS + 2 * HOUR, True)


def test_a_rolling_window_needs_a_rate() -> None:
    row = balance(500, 1000, "rolling 7200/60")
    found = limit_status(row, BEGINS + HOUR)
    assert (found.rate, found.empty_at) == (250, None)
    assert limit_status(row, BEGINS + HOUR, rate=500).empty_at == BEGINS + 2 * HOUR


def test_a_rate_of_nothing_is_no_forecast() -> None:
    assert limit_status(balance(500, 1000), BEGINS + HOUR, rate=0).empty_at is None


def test_the_most_urgent_is_over_then_ends_early_then_is_near() -> None:
    found = {
        "over": at(23, 1000),
        "early": at(2, 150),
        "near": at(23.9, 990),
        "half": at(23, 500),
        "unlimited": at(23, 10**9, None),
        "nothing": at(23, 0, 0),
    }
    order = sorted(found, key=lambda name: found[name].urgency, reverse=True)
    assert order == ["over", "early", "near", "half", "unlimited", "nothing"]


def test_what_is_held_decides_between_equal_shares() -> None:
    more, less = (limit_status(balance(500, 1000, held=held), BEGINS) for held in (300, 200))
    assert more.urgency > less.urgency

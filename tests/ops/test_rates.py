"""Rates between balances."""

from budget_core.ledger.hold import Balance
from budget_cpython.ops.rates import RecentRates

PLACE = ("org", "calls", "run")


def add(rates: RecentRates, now: int, spent: int) -> None:
    rates.add([Balance(*PLACE, 1000, spent, 0, 0, None)], now)


def test_a_rate_is_that_between_the_first_and_the_last_balance() -> None:
    rates = RecentRates()
    add(rates, 1000, 50)
    add(rates, 1005, 60)
    assert rates.rates() == {}  # too soon
    add(rates, 1010, 60)
    assert rates.rates() == {PLACE: 3600}
    assert rates.steps(PLACE, 5) == [10, 0]
    assert rates.steps(PLACE, 1) == [0]


def test_what_is_older_than_five_minutes_does_not_count() -> None:
    rates = RecentRates()
    add(rates, 1000, 0)
    add(rates, 1200, 500)
    add(rates, 1400, 500)
    assert rates.rates() == {PLACE: 0}


def test_a_window_that_began_again_begins_again() -> None:
    rates = RecentRates()
    add(rates, 1000, 900)
    add(rates, 1020, 10)
    assert rates.rates() == {}
    add(rates, 1030, 20)
    assert rates.rates() == {PLACE: 3600}


def test_a_limit_that_is_gone_is_forgotten() -> None:
    rates = RecentRates()
    add(rates, 1000, 0)
    add(rates, 1010, 10)
    rates.add([], 1012)
    assert rates.rates() == {}
    assert rates.steps(PLACE, 5) == []

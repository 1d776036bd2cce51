"""Times are said in words: the hour, the date where it matters, and how long it is until then."""

from budget_core.until import stamp, until

NINE = 20_514 * 86_400 + 9 * 3600  # 2026-03-02 09:00 UTC


def test_a_time_is_said_as_a_date_and_an_hour() -> None:
    assert stamp(NINE + 59) == "2026-03-02 09:00 UTC"
    assert stamp(0) == "1970-01-01 00:00 UTC"


def test_dates_of_leap_years_and_after_2038_are_right() -> None:
    for at, text in (
        (951_782_399, "2000-02-28 23:59 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (951_868_800, "2000-03-01 00:00 UTC"),
        (1_735_689_599, "2024-12-31 23:59 UTC"),
        (2_147_483_648, "2038-01-19 03:14 UTC"),
        (4_107_542_400, "2100-03-01 00:00 UTC"),
        (253_402_300_799, "9999-12-31 23:59 UTC"),
    ):
        assert stamp(at) == text, at


def test_what_is_near_is_said_without_its_date() -> None:
    for seconds, text in (
        (11_520, "12:12 UTC, in 3 h 12 min"),
        (3_600, "10:00 UTC, in 1 h"),
        (3_601, "10:00 UTC, in 1 h 1 min"),
        (30, "09:00 UTC, in 1 min"),
        (86_399, "08:59 UTC, in 1 d"),
    ):
        assert until(NINE + seconds, NINE) == text, seconds


def test_what_is_far_is_said_with_its_date() -> None:
    assert until(NINE + 86_400, NINE) == "2026-03-03 09:00 UTC, in 1 d"
    assert until(NINE + 9 * 86_400 + 7_260, NINE) == "2026-03-11 11:01 UTC, in 9 d 2 h"


def test_without_a_date_of_today_no_wait_is_said() -> None:
    assert until(NINE, 0) == "2026-03-02 09:00 UTC"
    assert until(NINE, NINE + 1) == until(NINE, NINE) == "2026-03-02 09:00 UTC"


def test_a_time_that_no_calendar_has_is_said_too() -> None:
    assert until(1 << 59).startswith("9999-12-31")

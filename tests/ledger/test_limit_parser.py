"""Limits and times from a line of text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.ledger.limit import Limit
from budget_cpython import parse_budget
from budget_cpython.ledger.limit_parser import parse_limits


def test_limits_are_read_from_a_line_of_text() -> None:
    text = "$5/day + 100 calls/hour + 1_000_000 tokens / week@5 sunday Europe/Berlin + $0.50"
    assert parse_limits(text) == [
        Limit("nano_usd", 5_000_000_000, "day"),
        Limit("calls", 100, "hour"),
        Limit("tokens", 1_000_000, "week@5 sunday Europe/Berlin"),
        Limit("nano_usd", 500_000_000, "run"),
    ]
    assert parse_limits("3 calls/rolling 60/6 + 4 calls/day Etc/GMT+5") == [
        Limit("calls", 3, "rolling 60/6"),
        Limit("calls", 4, "day Etc/GMT+5"),
    ]
    assert parse_limits("0 calls/day@0") == [Limit("calls", 0, "day")]
    assert parse_limits("1 call + 1 token") == [Limit("calls", 1), Limit("tokens", 1)]


@given(st.integers(0, 2**53 - 1))
def test_money_is_read_to_the_nano_dollar(nanos: int) -> None:
    text = f"${nanos // 10**9}.{nanos % 10**9:09}"
    assert parse_limits(text) == [Limit("nano_usd", nanos)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'$5/day + 100 calls/hour'"), ("  ", "'$5/day + 100 calls/hour'"),
        (None, "'$5/day + 100 calls/hour'"), ("5/day", "not '5/day'"), ("calls/day", "not 'calls"),
        ("$5 + ", "not ''"), ("$-5", "not '$-5'"), ("-5 calls", "not '-5 calls'"),
        ("$1,000", "not '$1,000'"), ("$", "not '$'"), ("1.5 calls", "not '1.5 calls'"),
        ("$1e3", "not '$1e3'"), ("1__0 calls", "not '1__0 calls'"), ("$5 usd", "not '$5 usd'"),
        ("NaN calls", "not 'NaN calls'"), ("5 a.b/day", "not '5 a.b/day'"),
        ("$0.0000000001", "at most 9 decimals"), ("$1." + "0" * 40 + "1", "must be dollars"),
        ("9007199254740992 calls", "2**53 - 1"), ("$9007199.254740992", "2**53 - 1"),
        ("$5/", "window must be"), ("$5/year", "window must be"), ("$5/day Mars", "time zone"),
        ("$5/day + $6/day@0", "two are on nano_usd a day"),
        (f"1 {'a' * 65}", "axis must be"),
    ],
)  # fmt: skip
def test_a_text_that_says_no_limits_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_limits(text)


# With a time


def test_a_budget_is_limits_and_a_time_in_any_order() -> None:
    limits = [Limit("usd", "5"), Limit("calls", 200, "hour")]
    assert parse_budget("$5 + 200 calls/hour + 30 min") == (limits, 1800)
    assert parse_budget("30 min + $5 + 200 calls/hour") == (limits, 1800)
    assert parse_budget("$5 + 200 calls/hour") == (limits, None)
    assert parse_budget(" 90 s ") == ([], 90)
    assert parse_budget("0 s") == ([], 0)  # is nothing, and not unlimited
    assert parse_budget("10 tokens/day Europe/Berlin") == (
        [Limit("tokens", 10, "day Europe/Berlin")],
        None,
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500 ms", 0.5), ("90 s", 90), ("90s", 90), ("90 sec", 90), ("1 second", 1), ("2 secs", 2),
        ("30 min", 1800), ("30m", 1800), ("30 mins", 1800), ("0.5 minutes", 30), ("1 minute", 60),
        ("2 h", 7200), ("1.5 h", 5400), ("2 hours", 7200), ("1 hr", 3600), ("2 d", 172_800),
        ("1 day", 86_400), ("1_000 seconds", 1000), ("3 milliseconds", 0.003),
    ],
)  # fmt: skip
def test_a_time_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_budget(text) == ([], seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "such as '$5 + 30 min', not ''"), ("  ", "not '  '"), (None, "not None"),
        ("5", "a time, such as '30 min', not '5'"), ("1:30 h", "not '1:30 h'"),
        ("-5 min", "not '-5 min'"), ("inf s", "not 'inf s'"), ("1e3 s", "not '1e3 s'"),
        ("1.5 calls", "not '1.5 calls'"), ("$5 + ", "not ''"), ("1 h 30 min", "not '1 h 30 min'"),
        ("5 min + 1 h", "at most one time, not 2 as in '5 min + 1 h'"),
        ("5 min + 5 min", "at most one time"),
        ("30 min/day", "a time has no window: write '30 min', not '30 min/day'"),
        ("$5/year", "window must be"), ("$5 + $6", "two are on nano_usd a run"),
        ("$0.0000000001 + 5 min", "at most 9 decimals"),
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_budget_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_budget(text)

"""Limits and times from a line of text."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.ledger.limit import Limit
from budget_core.ledger.window_words import rolling
from budget_cpython.ledger.limit_parser import parse_budget, parse_limits
from budget_cpython.ledger.limit_words import COUNTED, limits_in_words


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


_MINUTE, _NINETY = "rolling 60/60", "rolling 5400/60"
_FIVE = ("nano_usd", 5 * 10**9)


@pytest.mark.parametrize(
    ("text", "axis", "cap", "window"),
    [
        ("5 Calls", "calls", 5, "run"), ("5 TOKENS/Day", "tokens", 5, "day"),
        ("5 tool calls", "tool_calls", 5, "run"), ("1 tool_call", "tool_calls", 1, "run"),
        ("5 tool:mcp__github__Search/hour", "mcp__github__Search", 5, "hour"),
        ("1k tokens", "tokens", 1_000, "run"), ("1.5M tokens", "tokens", 1_500_000, "run"),
        ("0.5k calls", "calls", 500, "run"), ("$1.5k", "nano_usd", 1_500 * 10**9, "run"),
        ("$1/min", "nano_usd", 10**9, _MINUTE), ("5 calls/Minute", "calls", 5, _MINUTE),
        ("$5/5h", "nano_usd", 5 * 10**9, "rolling 18000/60"),
        ("5 calls/10 s", "calls", 5, "rolling 10/10"),
        ("5 calls/90 min", "calls", 5, "rolling 5400/60"),
        ("5 calls/7s", "calls", 5, "rolling 7/7"),
        ("5 calls/2 weeks", "calls", 5, "rolling 1209600/60"),
        ("$2/10min", "nano_usd", 2 * 10**9, "rolling 600/60"),
        ("$2 / 10 min", "nano_usd", 2 * 10**9, "rolling 600/60"),
        ("$2 per 10 Min", "nano_usd", 2 * 10**9, "rolling 600/60"),
        ("50 calls/90s", "calls", 50, "rolling 90/45"), ("$1/1.5h", "nano_usd", 10**9, _NINETY),
        ("5k tokens/30 minutes", "tokens", 5_000, "rolling 1800/60"),
        ("5 calls/1_000 s", "calls", 5, "rolling 1000/50"),
        ("5 calls/rolling 90 min", "calls", 5, _NINETY), ("5 calls per hour", "calls", 5, "hour"),
        ("5 calls per rolling 60/6", "calls", 5, "rolling 60/6"), ("$5 per run", *_FIVE, "run"),
        ("$5 per day@5 Europe/Berlin", *_FIVE, "day@5 Europe/Berlin"),
        ("3 tool:search per day", "search", 3, "day"),
        ("5 calls/h", "calls", 5, "hour"), ("5 calls/d", "calls", 5, "day"),
        ("5 calls/Week sunday", "calls", 5, "week sunday"),
    ],
)  # fmt: skip
def test_words_that_mean_one_thing_are_read(text: str, axis: str, cap: int, window: str) -> None:
    assert parse_limits(text) == [Limit(axis, cap, window)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "'$5/day + 100 calls/hour'"), ("  ", "'$5/day + 100 calls/hour'"),
        (None, "'$5/day + 100 calls/hour'"), ("5/day", "not '5/day'"), ("calls/day", "not 'calls"),
        ("$5 + ", "missing beside a '+' in '$5 + '"), ("+ $5", "missing beside a '+'"),
        ("$-5", "not '$-5'"), ("-5 calls", "not '-5 calls'"),
        ("$1,000", "not '$1,000'"), ("$", "not '$'"), ("1.5 calls", "not '1.5 calls'"),
        ("$1e3", "not '$1e3'"), ("1__0 calls", "not '1__0 calls'"), ("$5 usd", "not '$5 usd'"),
        ("NaN calls", "not 'NaN calls'"), ("5 a.b/day", "not '5 a.b/day'"),
        ("$0.0000000001", "at most 9 decimals"), ("$1." + "0" * 40 + "1", "must be dollars"),
        ("9007199254740992 calls", "2**53 - 1"), ("$9007199.254740992", "2**53 - 1"),
        ("$5/", "window must be"), ("$5/year", "window must be"), ("$5/day Mars", "time zone"),
        ("$5/daily", "did you mean '/day'?"), ("$5/dya", "did you mean '/day'?"),
        ("$5/m", "did you mean '/min'?"), ("$5/10M", "did you mean '/10 min'?"),
        ("$5/10 minuts", "did you mean '/10 minutes'?"), ("$5/10-min", "did you mean '/10 min'?"),
        ("$5/1 month", "did you mean '/month'?"), ("$5/1h 30min", "as in '90 min'; window must be"),
        ("$5/last 10 min", "a time such as '10 min' is a rolling window"),
        ("$5/0 h", "the window of '$5/0 h' must be a whole number of seconds, from 1 s to 366 d"),
        ("$5/999999999 d", "from 1 s to 366 d"), ("$5/367 d", "from 1 s to 366 d"),
        ("$5/500ms", "a whole number of seconds"), ("$5/0.1 s", "a whole number of seconds"),
        ("$5/10min + $6/600s", "two are on dollars per 10 min"),
        ("$5/day + $6/day@0", "two are on dollars per day"),
        ("$5/day + $6/d", "two are on dollars per day"),
        ("1.0005k tokens", "a whole number, not '1.0005k tokens'"),
        (f"1 tool:{'a' * 65}", "axis must be"), ("1 tool:", "axis must be"),
        ("1 tool:calls", "limit tool_calls"), ("1 tool:usd", "limit tool_calls"),
        (" + ".join(f"1 tool:a{at}" for at in range(17)), "at most 16 limits, not 17"),
        ("5 calls + " * 200, "1000 characters at most"),
        ("5 min", "'5 min' is a time"), ("5 calls + 5 min", "such as '5 calls/5 min'"),
        ("5 foo", "'5 foo' limits nothing that is counted"), ("5 foo", "or '5 tool:foo'"),
        ("5 cals", "did you mean '5 calls'? The calls of a tool of that name are '5 tool:cals'"),
        ("5k tokns", "did you mean '5k tokens'?"), ("5 toolcalls", "did you mean '5 tool_calls'?"),
        ("5 requests", "did you mean '5 calls'?"), ("5 llm calls", "did you mean '5 calls'?"),
        ("5 tool-calls", "did you mean '5 tool_calls'?"), ("5 minuts", "did you mean '5 minutes'?"),
        ("5 usd", "money is in dollars, such as '$5'"), ("5 Dollars", "such as '$5' or '$0.50'"),
        ("50 cents", "such as '$5' or '$0.50'"), ("5$", "such as '$5'"), ("$ 5", "such as '$5'"),
        ("5 calls, 3 tokens", "join limits with ' + '"), ("1,000 calls", "no commas"),
        ("5 calls+3 tokens", "join limits with ' + '"),
        ("5 calls and 3 tokens", "join limits with ' + '"), ("5 calls; $3", "join limits with"),
        ("5 calls in 10 min", "write '/' before the window"), ("$5 a day", "write '/' before"),
        ("$5 every 10 min", "write '/' before the window"), ("$5 per", "window must be"),
        ("5calls/day", "did you mean '5 calls/day'?"), ("$5/mo", "did you mean '/month'?"),
        ("$5 daily", "write '/' before"), ("5 calls Weekly", "write '/' before"),
        ("unlimited", "what is not limited is left out"), ("none", "left out"),
        ("1m tokens", "as in '1M tokens'"), ("5 million tokens/day", "as in '1M tokens'"),
    ],
)  # fmt: skip
def test_a_text_that_says_no_limits_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_limits(text)


_TEXT = (
    "5 $ . , _ + / tool: calls Tokens tool_calls search min h day week@5 rolling 60/6 k M run "
    "usd per and UTC Europe/Berlin foo 0 1.5 999999999999999999 - @ : \u00a0"
)
_WORDS = st.sampled_from(_TEXT.split(" "))


@given(st.one_of(st.text(), st.lists(_WORDS).map("".join), st.lists(_WORDS).map(" ".join)))
def test_a_text_is_read_or_refused_and_what_is_read_is_counted(text: str) -> None:
    for read in (parse_limits, parse_budget):
        try:
            found: Any = read(text)
        except ValueError:
            continue
        limits, seconds = found if read is parse_budget else (found, None)
        assert limits or (seconds is not None and 0 <= seconds < float("inf"))
        for limit in limits:
            assert limit.axis in COUNTED or f"tool:{limit.axis}" in re.sub(r":\s+", ":", text)


@given(
    st.integers(1, 366 * 86_400).map(rolling)
    | st.sampled_from(["run", "hour", "day@5 Europe/Berlin", "week sunday", "rolling 60/6"]),
    st.sampled_from([*COUNTED, "search"]),
    st.integers(0, 2**53 - 1),
)
def test_the_words_of_limits_are_read_as_these_limits(window: str, axis: str, cap: int) -> None:
    limits = [Limit(axis, cap, window), Limit("calls", 5, "month")]
    assert parse_limits(limits_in_words(limits)) == limits


def test_the_words_of_limits_read_well() -> None:
    text = "$2/10min + 50 calls/1h + 9 calls/2w + 3 tool:search/day + $5"
    shown = "$2.00 per 10 min + 50 calls per 60 min + 9 calls per 14 d + 3 tool:search per day"
    assert limits_in_words(parse_limits(text)) == shown + " + $5.00"
    assert limits_in_words([Limit("nano_usd", None, "day")]) == "all dollars per day"


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
        ("1 day", 86_400), ("1_000 seconds", 1000), ("3 milliseconds", 0.003), ("2 Hours", 7200),
    ],
)  # fmt: skip
def test_a_time_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_budget(text) == ([], seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "such as '$5 + 30 min', not ''"), ("  ", "not '  '"), (None, "not None"),
        ("5", "a limit must be dollars, such as '$5/day', or a whole number"),
        ("1:30 h", "not '1:30 h'"),
        ("-5 min", "not '-5 min'"), ("inf s", "not 'inf s'"), ("1e3 s", "not '1e3 s'"),
        ("1.5 calls", "not '1.5 calls'"), ("$5 + ", "missing beside a '+'"),
        ("1 h 30 min", "not '1 h 30 min': join"),
        ("5 min + 1 h", "at most one time, not 2 as in '5 min + 1 h'"),
        ("5 min + 5 min", "at most one time"), ("9" * 400 + " s", "at most 36_500 d"),
        ("30 min/day", "a time has no window: write '30 min', not '30 min/day'"),
        ("$5/year", "window must be"), ("$5 + $6", "two are on dollars per run"),
        ("$0.0000000001 + 5 min", "at most 9 decimals"),
    ],
)  # fmt: skip
def test_a_text_that_is_not_a_budget_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_budget(text)

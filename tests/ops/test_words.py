"""Amounts and limits in words."""

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ops.words import amount_words, limit_text, limits_text, short_amount

DOLLAR = 10**9


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (123_456, "123.45k"),
        (1_500_000, "1.5M"),
        (12_345_678_901, "12,345.67M"),
    ],
)
def test_a_count_is_short(amount: int, shown: str) -> None:
    assert short_amount("tokens", amount) == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (2_790_000, "$0.0027"),
        (99_940_000, "$0.0999"),
        (100_000_000, "$0.10"),
        (479_600_000, "$0.47"),
        (999_999_999, "$0.99"),
        (12_345_678_901, "$12.34"),
        (1_234_567 * DOLLAR, "$1,234,567.00"),
    ],
)
def test_dollars_are_rounded_down(amount: int, shown: str) -> None:
    assert short_amount("nano_usd", amount) == shown


def test_an_amount_has_its_unit() -> None:
    shown = [amount_words(axis, 3) for axis in ("calls", "tool_calls", "search")]
    assert shown == ["3 calls", "3 tool_calls", "3 tool:search"]
    assert amount_words("nano_usd", DOLLAR) == "$1.00"
    assert amount_words("calls", 1) == "1 call"


@pytest.mark.parametrize(
    "text",
    [
        "$5/day",
        "$0.50/month@5",
        "$0.000000001",
        "100 calls/hour",
        "1234567 tokens",
        "2M tokens/week sunday",
        "150k tokens/10 min",
        "1 call/5 h",
        "1.6M tokens/day",
        "123.45k calls",
        "1 tool:boss",
        "1 tool_call/day",
        "3 tool:search/day@5 Europe/Berlin",
        "20 tool_calls",
        "7 calls/rolling 86400/24",
        "7 calls/7 s",
    ],
)
def test_a_limit_is_written_as_the_parser_reads_it(text: str) -> None:
    (limit,) = parse_limits(text)
    assert limit_text(limit.axis, limit.cap, limit.window) == text


def test_limits_are_joined() -> None:
    limits = [("nano_usd", 5 * DOLLAR, "day"), ("calls", 100, "hour")]
    assert limits_text(limits) == "$5/day + 100 calls/hour"
    assert parse_limits(limits_text(limits)) == [Limit(*one) for one in limits]
    assert limits_text([]) == "no limits"


def test_an_unlimited_axis_is_said() -> None:
    assert limit_text("calls", None, "day") == "all calls/day"

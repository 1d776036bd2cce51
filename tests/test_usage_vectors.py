"""The usage reports that both runtimes read, against genai-prices' own reading of them."""

from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.data_units import unit_data
from genai_prices.types import ModelPrice, Usage

from budget_core.usage import read_usage
from budget_cpython import ListedPrices
from tests_micro.test_usage_vectors import PRICE, damaged, vectors

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PROVIDERS = {provider.id: provider for provider in get_snapshot().providers}
LINES = vectors()
TOKENS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "output_reasoning")
TIERS = {"batch": {"processing": "batch"}, "fast": {"speed": "fast"}}


def wrapped(root: Any, report: dict[str, Any]) -> dict[str, Any]:
    """Return a response with a report where genai-prices looks for it."""
    names = [root] if isinstance(root, str) else list(root)
    if names[-1] in report:
        names.pop()
    for name in reversed(names):
        report = {name: report}
    return report


def extracted(line: Any) -> Usage:
    """Return genai-prices' reading of a report."""
    provider, form, report = PROVIDERS[line[0]], line[1], line[6]
    forms = {one.api_flavor: one for one in provider.extractors or ()}
    return provider.extract_usage(wrapped(forms[form].root, report), api_flavor=form)[1]


def named(line: Any) -> str:
    return f"{line[0]} {line[3]} {line[2]} {line[4]}"


WITH_FORM = [line for line in LINES if line[1] is not None]


def test_most_reports_are_read_by_genai_prices_too() -> None:
    assert len(WITH_FORM) >= 200


@pytest.mark.parametrize("line", WITH_FORM, ids=named)
def test_the_tokens_are_those_that_genai_prices_extracts(line: Any) -> None:
    units = vars(extracted(line))
    assert line[4] == [units.get(name + "_tokens", 0) for name in TOKENS]


def everything_priced() -> ModelPrice:
    """Return prices of all units, those of `PRICE` and others for what it does not know."""
    known = {"input": "3", "output": "15", "cache_read": "0.3", "cache_write": "3.75"}
    prices = {name + "_mtok": Decimal(usd) for name, usd in known.items()}
    prices["cache_write_1h_mtok"] = Decimal("6")
    for name, unit in unit_data.items():
        odd = any(word in name for word in ("text", "tool", "reasoning", "citation", "5m"))
        if name != "requests" and not odd:
            prices.setdefault(unit["price_key"], Decimal(1_000))
    return ModelPrice(**prices)


def test_no_cost_is_called_exact_that_leaves_out_a_unit() -> None:
    prices = everything_priced()
    for line in WITH_FORM:
        cost, full = PRICE.cost_of(line[6])
        if full:
            assert cost == prices.calc_price(extracted(line))["total_price"] * 10**9, line


@pytest.mark.parametrize("line", WITH_FORM, ids=named)
def test_a_listed_price_is_that_of_genai_prices(line: Any) -> None:
    price = ListedPrices(line[0], now=lambda: NOW).get(line[2])
    assert price is not None
    cost, full = price.cost_of(line[6])
    report = line[6]
    if full:
        tariffs = TIERS.get(report.get("service_tier", "")) or TIERS.get(report.get("speed", ""))
        _, model = get_snapshot().find_provider_model(line[2], None, line[0], None)
        found = model.calc_price(
            extracted(line),
            PROVIDERS[line[0]],
            genai_request_timestamp=NOW,
            price_context=tariffs,
        )
        exact = found.total_price * 10**9
        assert cost == exact.to_integral_value(ROUND_CEILING)


def test_a_listed_price_knows_all_of_most_reports() -> None:
    whole = [line for line in LINES if is_full(line)]
    assert len(whole) >= 195
    marked = [line for line in LINES if line[5] == "marked" and is_full(line)]
    assert len(marked) >= 30  # which a Price alone cannot tell


def is_full(line: Any) -> bool:
    price = ListedPrices(line[0], now=lambda: NOW).get(line[2])
    return price is not None and price.cost_of(line[6])[1]


def test_a_damaged_report_has_a_listed_cost_all_the_same() -> None:
    for line in LINES[::3]:
        price = ListedPrices(line[0], now=lambda: NOW).get(line[2])
        for report in damaged(line[6]) if price is not None else ():
            assert price is not None
            cost, full = price.cost_of(report)
            assert cost >= 0, report
            assert full in (True, False), report


def test_the_price_of_iterations_is_the_sum_of_their_models_prices() -> None:
    [line] = [line for line in LINES if line[2] == "claude-haiku-4-5"]
    table = ListedPrices("anthropic", now=lambda: NOW)
    small, large = table.get("claude-haiku-4-5"), table.get("claude-opus-4-5")
    assert small is not None
    assert large is not None
    assert small.cost_of(line[6]) == (small.cost(412, 1230) + large.cost(823, 1612), True)


def test_iterations_below_their_sum_change_no_cost() -> None:
    price = ListedPrices("anthropic", now=lambda: NOW).get("claude-sonnet-4-5")
    assert price is not None
    less = [{"type": "message", "input_tokens": 10, "output_tokens": 2}]
    report = {"input_tokens": 100, "output_tokens": 20, "iterations": less}
    assert price.cost_of(report)[0] == price.cost(100, 20)


def test_web_searches_beside_iterations_are_billed() -> None:
    [line] = [one for one in LINES if "iterations" in one[6] and "server_tool_use" in one[6]]
    price = ListedPrices("anthropic", now=lambda: NOW).get(line[2])
    assert price is not None
    searches, full = price.cost_of_units(web_searches=2)
    assert (searches, full) == (20_000_000, True)
    assert price.cost_of(line[6]) == (price.cost(80_500, 350) + searches, True)


@pytest.mark.parametrize(
    ("report", "model", "missing"),
    [
        # OpenAI bills writes to a cache at 1.25 of the input's price
        (
            {
                "prompt_tokens": 8_000,
                "completion_tokens": 0,
                "total_tokens": 8_000,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 6_400},
            },
            "openai/gpt-5.6",
            16.7,
        ),
        # Anthropic bills writes for an hour at twice the input's price, not at 1.25
        (
            {
                "input_tokens": 904,
                "output_tokens": 100,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 5_720,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 0,
                    "ephemeral_1h_input_tokens": 5_720,
                },
            },
            "anthropic/claude-sonnet-4-5",
            33.4,
        ),
        # Five web searches cost 5 cents beside few tokens
        (
            {
                "input_tokens": 900,
                "output_tokens": 122,
                "server_tool_use": {"web_search_requests": 5},
            },
            "anthropic/claude-sonnet-4-5",
            91.7,
        ),
    ],
)
def test_what_was_left_out_is_billed(report: dict[str, Any], model: str, missing: float) -> None:
    price = ListedPrices(now=lambda: NOW).get(model)
    assert price is not None
    cost, full = price.cost_of(report)
    assert full
    usage = read_usage(report)
    assert usage.input is not None
    assert usage.output is not None
    written = 0 if "prompt_tokens" in report else usage.cache_written
    left_out = price.cost(usage.input, usage.output, usage.cached, written)
    assert round(100 * (1 - left_out / cost), 1) == missing

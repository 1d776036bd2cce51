"""The record of what a call used, with the units that its vendor bills."""

from typing import Any

import pytest

from budget_core.usage import Usage, read_usage
from budget_cpython import ListedPrices, Price
from budget_cpython.vendors.usage import billed_usage
from tests_micro.test_usage_vectors import damaged, vectors

PLAIN = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
SEARCHES = {
    "input_tokens": 900,
    "output_tokens": 120,
    "server_tool_use": {"web_search_requests": 5},
}


def units(report: Any) -> dict[str, float]:
    """Return the units of a record that are not zero, by name."""
    found: dict[str, float] = {}
    for row, count in billed_usage(report).units.items():
        if count:
            found[row.unit] = found.get(row.unit, 0) + count
    return found


def test_a_record_is_a_usage_that_is_read_once() -> None:
    record = billed_usage(PLAIN)
    assert read_usage(record) is record
    assert billed_usage(record) is record
    assert (record.input, record.output, record.total) == (1_000, 100, 1_100)
    assert (record.status, record.full, record.units) == (Usage.MEASURED, True, {})


def test_a_record_says_what_is_billed_beside_tokens() -> None:
    assert units(SEARCHES) == {"web_searches": 5}
    heard = {**PLAIN, "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 40}}
    assert units(heard) == {"input_audio_tokens": 40}
    written = {"input_tokens": 9, "output_tokens": 9, "cache_creation_input_tokens": 7}
    written["cache_creation"] = {"ephemeral_1h_input_tokens": 5}  # type: ignore[assignment]
    assert units(written) == {"cache_write_1h_tokens": 5}
    pictures = [{"modality": "IMAGE", "tokenCount": 3}, {"modality": "DOCUMENT", "tokenCount": 4}]
    gemini = {"promptTokenCount": 7, "totalTokenCount": 7, "promptTokensDetails": pictures}
    assert units(gemini) == {"input_image_tokens": 7}
    assert all(billed_usage(one).full for one in (SEARCHES, heard, written, gemini))


def test_a_record_says_at_which_tariff_it_was_served() -> None:
    record = billed_usage({**PLAIN, "service_tier": "flex", "speed": "fast", "cost": 0.25})
    assert (record.tier, record.speed, record.region, record.cost) == ("flex", "fast", None, 0.25)
    record = billed_usage({**PLAIN, "inference_geo": "us", "cost": {"total_cost": 2}})
    assert (record.tier, record.region, record.cost) == (None, "us", 2)
    assert billed_usage({"promptTokenCount": 1, "trafficType": "ON_DEMAND_FLEX"}).traffic == "flex"


def test_the_iterations_of_a_message_are_its_parts() -> None:
    asked = {"type": "message", "input_tokens": 10, "output_tokens": 2}
    advice = {**asked, "type": "advisor_message", "model": "claude-opus-4-5"}
    record = billed_usage({"input_tokens": 10, "output_tokens": 2, "iterations": [asked, advice]})
    assert [(part.total, part.model) for part in record.parts] == [
        (12, None),
        (12, "claude-opus-4-5"),
        (0, None),
    ]
    assert record.total == 24


@pytest.mark.parametrize(
    "report",
    [
        {**PLAIN, "something_new": 1},
        {**PLAIN, "prompt_tokens_details": {"audio_tokens": "many"}},
        {**SEARCHES, "server_tool_use": {"web_search_requests": -1}},
        {**SEARCHES, "server_tool_use": {"web_search_requests": True}},
        {**PLAIN, "iterations": [5]},
    ],
)
def test_what_no_row_covers_marks_the_record(report: dict[str, Any]) -> None:
    assert not billed_usage(report).full


def test_a_report_without_end_marks_the_record() -> None:
    endless: dict[str, Any] = dict(PLAIN)
    endless["more"] = endless
    record = billed_usage(endless)
    assert (record.full, record.total, record.units) == (False, 1_100, {})


def test_a_record_costs_what_its_report_costs() -> None:
    price = Price("3", "15", cached="0.3", cache_write="3.75", cache_write_1h="6")
    for line in vectors():
        listed = ListedPrices(line[0]).get(line[2])
        for report in (line[6], next(iter(damaged(line[6])))):
            record = billed_usage(report)
            assert price.cost_of(record) == price.cost_of(report), report
            assert listed is None or listed.cost_of(record) == listed.cost_of(report), report


def test_a_cost_that_is_reported_counts_where_the_rest_cannot_be_read() -> None:
    endless: dict[str, Any] = {}
    endless["details"] = endless
    broken: list[dict[str, Any]] = [{"trafficType": []}, {"details": endless}]
    for one in broken:
        record = billed_usage({**PLAIN, **one, "cost": 0.25})
        assert (record.total, record.cost, record.full) == (1_100, 0.25, False)

"""Usage reports of many providers: the tokens are right, and so is the cost or it is marked.

`usage_vectors.json` has a line a report: the provider, the form of its reports in genai-prices
(`null` where it has none), the model, the endpoint, the tokens (of the input, the output, read from
a cache, written to one, written for an hour, of reasoning), whether a `Price` knows all that it is
billed for, and the report. The shapes are those of the providers' documentation and SDKs.
"""

import json

from budget_core import Price, TurnBudgetTracker
from budget_core.usage import read_usage
from tests_micro.test_usage import ATTACKS, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PRICE = Price("3", "15", cached="0.3", cache_write="3.75", cache_write_1h="6")
UNTOLD = ("transcription", "ocr", "rerank")  # some of these report no tokens
FOLDER = __file__.rpartition("/")[0]


def vectors() -> "list[Any]":
    """Return all lines of the file."""
    with open(FOLDER + "/usage_vectors.json") as stream:
        found: list[Any] = json.load(stream)
    return found


def damaged(report: "Any") -> "Iterator[Any]":
    """Yield copies of a report, each with another of its values replaced by what is no count."""
    for place, path in enumerate(paths(report)):
        copy = json.loads(json.dumps(report))
        inner = copy
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = ATTACKS[place % len(ATTACKS)]
        yield copy


def paths(value: "Any") -> "Iterator[list[Any]]":
    steps: Any = value.keys() if isinstance(value, dict) else ()
    for step in range(len(value)) if isinstance(value, list) else steps:
        yield [step]
        for rest in paths(value[step]):
            yield [step] + rest


def test_there_are_two_hundred_reports_of_many_providers() -> None:
    found = vectors()
    assert len(found) >= 200
    assert len({line[0] for line in found}) >= 8
    endpoints = {line[3] for line in found}
    for endpoint in ("chat", "responses", "messages", "stream", "embeddings", "batch"):
        assert endpoint in endpoints, endpoint


def test_every_report_counts_its_tokens() -> None:
    for provider, form, model, endpoint, tokens, _, report in vectors():
        for one in (report, Report(report)):
            usage = read_usage(one)
            case = (provider, form, model, endpoint, report)
            taken, given, cached, written, _, reasoning = tokens
            if usage.input is None and usage.output is None:  # it has a total alone, or none
                assert usage.total == taken + given, case
                assert (usage.status == "measured") == (usage.total > 0), case
                assert usage.total or endpoint in UNTOLD, case
                continue
            assert (usage.input, usage.output or 0, usage.total) == (taken, given, taken + given), (
                case
            )
            assert (usage.cached, usage.cache_written) == (cached, written), case
            assert (usage.reasoning, usage.status) == (reasoning, "measured"), case


def test_every_cost_is_exact_or_marked() -> None:
    for provider, form, model, endpoint, tokens, known, report in vectors():
        taken, given, cached, written, hour, _ = tokens
        plain = taken - cached - written
        exact = plain * 3000 + cached * 300 + (written - hour) * 3750 + hour * 6000 + given * 15000
        cost, full = PRICE.cost_of(report)
        case = (provider, form, model, endpoint, report)
        assert full == (known == "exact"), case
        if full:
            assert cost == exact, (case, exact, cost)


def test_a_report_in_an_object_is_priced_as_in_a_dict() -> None:
    for line in vectors():
        report = line[6]
        cost, full = PRICE.cost_of(Report(report))
        assert cost == PRICE.cost_of(report)[0], report
        assert full == (line[5] == "exact"), report


def test_a_damaged_report_has_a_cost_all_the_same() -> None:
    for line in vectors():
        for report in damaged(line[6]):
            cost, full = PRICE.cost_of(report)
            assert cost >= 0, report
            assert full in (True, False), report


def test_a_tracker_counts_every_report_that_has_tokens_as_measured() -> None:
    tracker = TurnBudgetTracker()
    without_tokens = 0
    for line in vectors():
        without_tokens += not sum(line[4])
        tracker.record(line[6])
    assert tracker.usage_seen["missing"] == without_tokens
    assert (tracker.usage_seen["invalid"], tracker.usage_seen["estimated"]) == (0, 0)

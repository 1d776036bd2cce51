"""One table of how calls end: what each used, how well that is known, and what it cost."""

import asyncio

from budget_core.errors import BudgetError
from budget_core.settlement import Settlement
from budget_core.usage_estimate import estimate_tokens
from budget_core.usage_stream import StreamedAnswer
from tests_micro.settlement_cases import (
    CASES,
    MESSAGES,
    PRICE,
    PROMPT,
    error_of,
    response_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def outcome_of(case: "dict[str, Any]") -> Settlement:
    """Return the settlement of a case."""
    streamed = None
    if "stream" in case:
        streamed = StreamedAnswer()
        for piece in case["stream"]:
            if isinstance(piece, str):
                streamed.count(piece)
            else:
                streamed.usage = piece
    return Settlement(response_of(case), error_of(case), MESSAGES, None, streamed)


def test_the_prompt_has_the_size_that_the_cases_say() -> None:
    assert estimate_tokens(MESSAGES, None) == PROMPT


def test_each_end_says_what_was_used_and_how_well_that_is_known() -> None:
    for case in CASES:
        usage = outcome_of(case).usage
        assert (usage.input, usage.output, usage.status) == case["used"], case["case"]


def test_each_end_has_its_cost() -> None:
    for case in CASES:
        outcome = outcome_of(case)
        assert outcome.cost(PRICE) == case["cost"], case["case"]
        assert outcome.billed == (case["charged"] is not None), case["case"]


def test_without_a_price_the_reported_cost_is_all_that_is_known() -> None:
    for case in CASES:
        found = outcome_of(case).cost(None)
        cost = case.get("answer", {}).get("cost")
        if case["charged"] is None:
            assert found == (None, True), case["case"]
        elif cost is None:
            assert found == (None, False), case["case"]
        else:
            assert found == (round(cost * 1_000_000_000), True), case["case"]


def test_a_reported_cost_that_is_absurd_leaves_the_cost_unknown() -> None:
    for reported in (9_000_001, 1e30, float("inf")):
        usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
        case: "dict[str, Any]" = {"answer": {"usage": usage}}
        priced, _ = outcome_of(case).cost(PRICE)
        case["answer"]["cost"] = reported
        assert priced
        assert outcome_of(case).cost(PRICE) == (priced, False), reported
        assert outcome_of(case).cost(None) == (None, False), reported


def test_a_call_that_was_not_admitted_costs_nothing() -> None:
    for error in (BudgetError("no"), asyncio.CancelledError(), OSError(104)):
        outcome = Settlement(None, error, MESSAGES, sent=False)
        assert (outcome.billed, outcome.cost(PRICE), outcome.usage.total) == (False, (0, True), 0)


def test_an_answer_in_the_models_place_costs_nothing() -> None:
    from budget_core.enforcement import cut_off

    outcome = Settlement(cut_off("Enough.", "org"), None, MESSAGES)
    assert (outcome.billed, outcome.estimated, outcome.usage.total) == (False, False, 0)


def test_a_call_that_is_left_behind_counts_as_one_whose_end_is_unknown() -> None:
    outcome = Settlement(None, GeneratorExit(), MESSAGES)
    assert (outcome.closing, outcome.billed, outcome.estimated) == (True, True, True)
    assert (outcome.usage.input, outcome.usage.status) == (PROMPT, "estimated")

"""Money counted with genai-prices, before a call and after it."""

import pytest

from budget_cpython import Budget, ChatResponse, ListedPrices, Operative, Price, StopReason
from tests.agent.support import QUESTION, says
from tests_micro.script import Script


def test_a_listed_price_is_that_of_the_list() -> None:
    price = ListedPrices("openai").get("gpt-4o-mini")
    assert price is not None
    assert price.cost(1_000_000, 0) == 150_000_000
    assert price.cost(0, 1_000_000) == 600_000_000
    assert price.cost(1_000_000, 0, 1_000_000) == 75_000_000


def test_a_cost_is_rounded_up() -> None:
    price = ListedPrices("openai").get("gpt-4o-mini")
    assert price is not None
    assert price.cost(1, 0) == 150
    assert price.cost(1, 0, 1) == 75
    cheap = ListedPrices("openai").get("gpt-5-nano")
    assert cheap is not None
    assert cheap.cost(1, 0, 1) == 5
    assert cheap.cost(0, 0) == 0


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-5-nano", "gpt-4o"])
@pytest.mark.parametrize("money", [0, 1, 149, 150, 10_000, 1_234_567, 999_999_999])
@pytest.mark.parametrize("prompt", [0, 1, 50, 100_000])
def test_affordable_is_the_largest_number_of_tokens(model: str, money: int, prompt: int) -> None:
    price = ListedPrices("openai").get(model)
    assert price is not None
    tokens = price.affordable(money, prompt)
    assert tokens is not None
    if tokens < 0:
        assert price.cost(prompt, 0) > money
    else:
        assert price.cost(prompt, tokens) <= money < price.cost(prompt, tokens + 1)


def test_a_model_that_is_not_listed_has_no_price() -> None:
    assert ListedPrices().get("no-such-model-anywhere") is None


def test_a_run_is_refused_before_a_call_that_it_cannot_pay() -> None:
    script = Script(says("Done."))
    budget = Budget(max_nano_usd=1_000, last_call=None)
    operative = Operative(
        script,
        budget=budget,
        model="gpt-4o-mini",
        prices=ListedPrices("openai"),
        count_tokens=lambda messages, tools: 50,
    )
    result = operative.run_sync(QUESTION)
    assert result.reason is not None
    assert result.reason.kind == StopReason.COST_LIMIT
    assert (result.usage["nano_usd"], script.sent) == (0, [])


def test_a_call_that_is_too_expensive_uses_the_fallback_model() -> None:
    script = Script(says("Done.", 100))
    operative = Operative(
        script,
        budget=Budget(max_nano_usd=100_000),
        model="dear",
        fallback_model="cheap",
        prices={"dear": Price(10_000, 10_000), "cheap": Price(0.1, 0.4)},
        count_tokens=lambda messages, tools: 50,
    )
    result = operative.run_sync(QUESTION)
    assert result.completed
    assert script.models[0] == "cheap"
    assert result.usage["nano_usd"] == 90 * 100 + 10 * 400


def test_a_model_without_a_price_is_used_where_money_is_not_limited_and_said_so() -> None:
    operative = Operative(Script(says("Done.")), budget=Budget(max_turns=3), prices={})
    result = operative.run_sync(QUESTION)
    assert (result.completed, result.usage["unpriced"]) == (True, 1)


def test_a_model_without_a_price_is_refused_where_money_is_limited() -> None:
    operative = Operative(Script(says("Done.")), budget=Budget(max_nano_usd=10**9), prices={})
    result = operative.run_sync(QUESTION)
    assert result.reason is not None
    assert result.reason.kind == StopReason.COST_LIMIT
    assert "no price is known for script" in str(result.reason)


def test_what_is_written_to_a_cache_costs_what_the_list_says() -> None:
    price = ListedPrices("anthropic").get("claude-sonnet-4-5")
    assert price is not None
    assert price.cost(100_000, 0) == 300_000_000
    assert price.cost(100_000, 0, 0, 100_000) == 375_000_000
    usage = {
        "input_tokens": 0,
        "output_tokens": 10,
        "cache_creation_input_tokens": 1_000,
        "cache_read_input_tokens": 0,
    }
    script = Script(ChatResponse("Done.", usage=usage))
    prices = {"script": Price(3, 15, cache_write=3.75)}
    result = Operative(script, budget=Budget(max_turns=3), prices=prices).run_sync(QUESTION)
    assert result.usage["nano_usd"] == 1_000 * 3_750 + 10 * 15_000

"""Money counted with genai-prices, before a call and after it."""

import copy
import dataclasses
import enum
import struct
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage as Units
from genai_prices import calc_price
from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot
from genai_prices.types import ModelPrice
from openai.types import CompletionUsage
from openai.types.responses import ResponseUsage
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from budget_cpython import (
    Budget,
    ChatResponse,
    LeasedLedger,
    Limit,
    ListedPrices,
    Operative,
    Price,
    SqliteLedger,
    StopReason,
)
from budget_cpython.prices.listed_prices import ListedPrice
from tests.agent.support import QUESTION, says
from tests_micro.script import Script


def test_a_listed_price_is_that_of_the_list() -> None:
    price = ListedPrices("openai").get("gpt-4o-mini")
    assert price is not None
    assert price.cost(1_000_000, 0) == 150_000_000
    assert price.cost(0, 1_000_000) == 600_000_000
    assert price.cost(1_000_000, 0, 1_000_000) == 75_000_000


@pytest.mark.parametrize("name", ["opnai", "", 5])
def test_a_provider_that_is_not_listed_is_refused_by_name(name: Any) -> None:
    with pytest.raises(ValueError, match=f"provider_id must be .*, not {name!r}"):
        ListedPrices(name)


def test_each_listed_model_costs_what_genai_prices_says() -> None:
    for provider in get_snapshot().providers:
        table = ListedPrices(provider.id, now=lambda: NOW)
        for model in provider.models:
            name = model.id
            if provider.find_model(name) is not model:
                continue
            for prompt in (100, 200_000, 200_001, 272_001):
                price = table.get(name)
                assert price is not None
                nano_usd = _calculated(name, provider.id, prompt, 9, 30)
                assert price.cost(prompt, 9, 30) == nano_usd, (price, prompt)
                assert price.cost_of(_openai_report(prompt, 9, 30))[0] == nano_usd, (price, prompt)


def _calculated(model: str, provider: str, prompt: int, completion: int, cached: int) -> int:
    used = Units(input_tokens=prompt, output_tokens=completion, cache_read_tokens=cached)
    found = calc_price(used, model, provider_id=provider, genai_request_timestamp=NOW)
    return int((found.total_price * 10**9).to_integral_value(ROUND_CEILING))


def _openai_report(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    total = {"total_tokens": prompt + completion}
    return {**counts, **total, "prompt_tokens_details": {"cached_tokens": cached}}


def test_a_price_is_that_of_the_time_of_day() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    price = ListedPrices("deepseek", now=lambda: now).get("deepseek-chat")
    assert price is not None
    by_day = price.cost(1_000, 0)
    now = now.replace(hour=20)
    by_night = price.cost(1_000, 0)
    now = now.replace(hour=12)
    assert (by_day, by_night, price.cost(1_000, 0)) == (270_000, 135_000, 270_000)


def test_tokens_of_a_sort_with_its_own_price_cost_that() -> None:
    price = ListedPrices("openrouter").get("perplexity/sonar-deep-research")
    assert price is not None
    used = {**_openai_report(0, 1_000, 0), "completion_tokens_details": {"reasoning_tokens": 600}}
    assert price.cost_of(used) == (400 * 8_000 + 600 * 3_000, True)


def test_a_newer_list_counts_from_its_first_call() -> None:
    price = ListedPrices("openai").get("gpt-4o-mini")
    assert price is not None
    before = price.cost(1_000, 100)
    newer = copy.deepcopy(get_snapshot().providers)
    model = next(one for one in newer if one.id == "openai").find_model("gpt-4o-mini")
    assert model is not None
    model.prices = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2))
    set_custom_snapshot(DataSnapshot(newer, from_auto_update=True))
    try:
        assert price.cost(1_000, 100) == 1_200_000 != before
    finally:
        set_custom_snapshot(None)
    assert price.cost(1_000, 100) == before


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


# What a provider's own report or response says


PLAIN = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def listed(model: str, provider_id: str | None = None) -> ListedPrice:
    price = ListedPrices(provider_id, now=lambda: NOW).get(model)
    assert price is not None, model
    return price


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("openai/gpt-4o", "gpt-4o"),
        ("openai:gpt-4o", "gpt-4o"),
        ("azure/gpt-4o", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "gpt-4o"),
        ("gemini/gemini-2.5-flash", "gemini-2.5-flash"),
        ("google-gla:gemini-2.5-flash", "gemini-2.5-flash"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "claude-sonnet-4-5"),
    ],
)
def test_a_name_may_begin_with_its_provider(name: str, same: str) -> None:
    assert listed(name).cost(1_000, 100) == listed(same).cost(1_000, 100) > 0


def test_a_providers_own_price_counts() -> None:
    here, there = listed("openai/gpt-oss-120b"), listed("groq/openai/gpt-oss-120b")
    assert here.cost(1_000_000, 0) != there.cost(1_000_000, 0)
    assert "Groq" in repr(there)
    assert listed("openai/gpt-oss-120b", "groq").cost(1_000, 5) == there.cost(1_000, 5)


@pytest.mark.parametrize("name", ["acme/gpt-4o", "openai/no-such-model", "openai/", "/gpt-4o", ""])
def test_a_name_of_another_provider_has_no_price(name: str) -> None:
    assert ListedPrices().get(name) is None


def test_a_tier_costs_what_the_list_says_or_is_marked() -> None:
    price = listed("openai/gpt-5-mini")
    plain, _ = price.cost_of(PLAIN)
    assert price.cost_of(PLAIN, "default") == (plain, True)
    assert price.cost_of(PLAIN, "flex") == (plain // 2, True)
    assert price.cost_of({**PLAIN, "service_tier": "flex"}) == (plain // 2, True)
    dear, full = price.cost_of(PLAIN, "priority")
    assert (dear > plain, full) == (True, True)
    assert price.cost_of(PLAIN, "scale") == (plain, False)


def test_a_batch_costs_what_the_list_says_or_is_marked() -> None:
    price = listed("openai/gpt-4o-mini")
    plain, _ = price.cost_of(PLAIN)
    assert price.cost_of(PLAIN, batch=True) == (plain // 2, True)
    without = listed("deepseek/deepseek-chat")
    assert without.cost_of(PLAIN, batch=True) == (without.cost_of(PLAIN)[0], False)
    batched = {"input_tokens": 1_000, "output_tokens": 100, "service_tier": "batch"}
    claude = listed("claude-sonnet-4-5")
    assert claude.cost_of(batched) == (claude.cost(1_000, 100) // 2, True)


def test_a_unit_without_a_price_marks_the_call() -> None:
    searches = {
        "input_tokens": 10,
        "output_tokens": 5,
        "server_tool_use": {"web_search_requests": 1},
    }
    assert listed("claude-sonnet-4-5").cost_of(searches)[1]
    assert not listed("claude-3-haiku-20240307").cost_of(searches)[1]
    bedrock = listed("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0")
    assert not bedrock.cost_of(searches)[1]
    assert not listed("gpt-4o").cost_of({**PLAIN, "something_new": 1})[1]
    assert not listed("gpt-4o").cost_of({**PLAIN, "inference_geo": "us"})[1]


def test_images_in_a_report_that_is_not_one_of_images_mark_the_call() -> None:
    report: dict[str, Any] = {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150}
    made = {**report, "output_tokens_details": {"image_tokens": 40}}
    shown = {**report, "input_tokens_details": {"image_tokens": 40}}
    price = ListedPrices().get("gpt-5")
    assert price is not None
    assert [price.cost_of(one) for one in (report, made, shown)] == [
        (625_000, True),
        (625_000, False),
        (625_000, False),
    ]
    price = ListedPrices().get("gpt-image-1")
    assert price is not None
    whole = {**made, "input_tokens_details": {"text_tokens": 60, "image_tokens": 40}}
    assert price.cost_of(whole) == (60 * 5_000 + 40 * 10_000 + 50 * 40_000, True)


def test_a_unit_that_is_not_a_number_marks_the_call() -> None:
    price = listed("claude-sonnet-4-5")
    report = {"input_tokens": 100, "output_tokens": 10}
    for searches in ("2", True):
        used = {**report, "server_tool_use": {"web_search_requests": searches}}
        assert price.cost_of(used) == (450_000, False), searches


def test_parts_that_are_more_than_their_whole_mark_the_call() -> None:
    report = {**PLAIN, "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 5_000}}
    price = listed("gpt-audio")
    assert price.cost_of(report) == (price.cost(1_000, 100), False)


def test_a_report_may_be_an_object_of_an_sdk() -> None:
    report = {
        **PLAIN,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 50},
    }
    price = listed("gpt-audio")
    assert price.cost_of(CompletionUsage.model_validate(report)) == price.cost_of(report)
    assert price.cost_of(report)[1]
    responses = {
        "input_tokens": 8_000,
        "output_tokens": 100,
        "total_tokens": 8_100,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 6_400},
        "output_tokens_details": {"reasoning_tokens": 64},
    }
    price = listed("gpt-5.6")
    assert price.cost_of(ResponseUsage.model_validate(responses)) == price.cost_of(responses)
    assert price.cost_of(responses) == (price.cost(8_000, 100, 0, 6_400), True)
    more = {**responses, "something_new": 5}
    assert price.cost_of(ResponseUsage.model_validate(more)) == price.cost_of(more)
    assert not Price(1, 2, cache_write=3).cost_of(ResponseUsage.model_validate(more))[1]
    assert Price(1, 2, cache_write=3).cost_of(ResponseUsage.model_validate(responses))[1]


class Modality(enum.StrEnum):
    TEXT = "TEXT"
    AUDIO = "AUDIO"


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ModalityTokens(Camel):
    modality: Modality
    token_count: int


class UsageMetadata(Camel):
    """What google-genai makes of a report."""

    prompt_token_count: int
    candidates_token_count: int
    total_token_count: int
    thoughts_token_count: int | None = None
    prompt_tokens_details: list[ModalityTokens] | None = None


def test_an_object_may_have_other_names_than_its_json() -> None:
    report = {
        "promptTokenCount": 770,
        "candidatesTokenCount": 100,
        "thoughtsTokenCount": 50,
        "totalTokenCount": 920,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 450},
            {"modality": "AUDIO", "tokenCount": 320},
        ],
    }
    price = listed("gemini-2.5-flash")
    cost, full = price.cost_of(UsageMetadata.model_validate(report))
    assert (cost, full) == price.cost_of(report)
    assert full
    assert cost > price.cost(770, 150)
    assert price.cost_of(UsageMetadata.model_validate(report).model_dump()) == (cost, True)
    assert not Price(1, 2).cost_of(UsageMetadata.model_validate(report))[1]


@dataclasses.dataclass
class Tokens:
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    something_new: int = 0


def test_an_object_may_be_a_dataclass() -> None:
    for price in (listed("gpt-4o"), Price("2.50", 10)):
        assert price.cost_of(Tokens(1_000, 100, 1_100)) == (3_500_000, True)
        assert price.cost_of(Tokens(1_000, 100, 1_100, 1)) == (3_500_000, False)


def test_a_report_that_is_missing_or_damaged_marks_the_call() -> None:
    price = listed("gpt-4o")
    for missing in (None, {}, {"total_tokens": None}):
        assert price.cost_of(missing) == (0, False), missing
    damaged = {**PLAIN, "total_tokens": "many"}
    assert price.cost_of(damaged) == (price.cost(1_000, 100), False)
    assert listed("whisper-1").cost_of({"type": "duration", "seconds": 60}) == (6_000_000, True)


def test_a_report_without_end_marks_the_call() -> None:
    endless: dict[str, Any] = dict(PLAIN)
    endless["more"] = endless
    price = listed("gpt-4o")
    assert price.cost_of(endless) == (price.cost(1_000, 100), False)


class Single(float):
    """A float as a chip's: of 32 bits, printed with the digits that these have."""

    def __repr__(self) -> str:
        return f"{struct.unpack('f', struct.pack('f', self))[0]:.7g}"


def test_every_price_in_cents_is_exact_with_floats_of_32_bits() -> None:
    for cents in range(20_000):
        usd = Single(cents / 100)
        assert Price(usd, 0).cost(1_000_000, 0) == cents * 10_000_000, cents
        assert Budget(max_usd=usd).max_nano_usd == cents * 10_000_000, cents


def test_a_budget_in_dollars_is_the_same_dataclass() -> None:
    budget = Budget(max_usd="0.50")
    assert budget == Budget(max_nano_usd=500_000_000)
    assert hash(budget) == hash(Budget(max_nano_usd=500_000_000))
    assert dataclasses.replace(budget, max_turns=3) == Budget(max_turns=3, max_usd=0.5)
    assert budget.replace(max_usd=2).max_nano_usd == 2_000_000_000
    assert Budget(max_usd=Decimal("0.1")).max_nano_usd == 100_000_000
    assert "max_nano_usd=500000000" in repr(budget)


@pytest.mark.parametrize("leased", [False, True])
def test_an_engine_counts_dollars_in_nano_usd(tmp_path: Path, leased: bool) -> None:
    with SqliteLedger(tmp_path / "ledger.db") as engine:
        engine.set_limits("org", [Limit("usd", "5.00", "day")])
        ledger: Any = LeasedLedger(engine, block={"usd": "1.00"}) if leased else engine
        settled = ledger.commit(ledger.reserve("org", {"usd": "0.30"}), {"usd": "0.20"})
        assert settled.actual == {"nano_usd": 200_000_000}
        ledger.charge("org", {"usd": 0.05})
        if leased:
            ledger.close()
        [row] = engine.balance("org")
        assert (row.axis, row.spent, row.held) == ("nano_usd", 250_000_000, 0)


def test_units_are_priced_by_their_names() -> None:
    assert listed("tts-1").cost_of_units(input_characters=1_000) == (15_000_000, True)
    assert listed("whisper-1").cost_of_units(audio_seconds=60) == (6_000_000, True)
    assert listed("mistral/mistral-ocr-latest").cost_of_units(input_document_pages=2)[1]
    assert listed("gpt-4o").cost_of_units(audio_seconds=60) == (0, False)


def test_a_run_at_another_tier_costs_what_the_list_says() -> None:
    answer = ChatResponse("Done.", usage=PLAIN, service_tier="flex")
    operative = Operative(
        Script(answer), budget=Budget(max_turns=3), model="openai/gpt-5-mini", prices=ListedPrices()
    )
    result = operative.run_sync(QUESTION)
    assert result.usage["nano_usd"] == listed("gpt-5-mini").cost(1_000, 100) // 2
    assert result.usage["unpriced"] == 0


def test_a_run_costs_what_the_model_takes_that_answered() -> None:
    answer = ChatResponse("Done.", usage=PLAIN)
    answer.model = "gpt-4o-2024-05-13"
    operative = Operative(
        Script(answer), budget=Budget(max_turns=3), model="gpt-4o-mini", prices=ListedPrices()
    )
    result = operative.run_sync(QUESTION)
    assert result.usage["nano_usd"] == listed("gpt-4o-2024-05-13").cost(1_000, 100)

"""What tokens cost: whole numbers, rounded up, and exact."""

from budget_core import Budget, BudgetWrapper, Ledger, Limit, Middleware, Price
from budget_core.prices import price_of
from tests_micro.script import QUESTION, Script, play, says
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_PRICES: "tuple[Any, ...]" = (
    -0.01,
    float("nan"),
    float("inf"),
    1_000_001,
    True,
    False,
    "3 $",
    "0.0000001",
    None,
    [3],
)
PRICES = ((3, 15), (0.15, 0.6), (0.075, 0.3), (0, 0.001), (0.001, 0), (0, 0), (0.000001, 7))


def test_a_price_is_checked_by_its_name() -> None:
    for bad in NO_PRICES:
        assert "input" in str(raises(ValueError, Price, bad, 1)), bad
        assert "output" in str(raises(ValueError, Price, 1, bad)), bad
        if bad is not None:
            assert "cached" in str(raises(ValueError, Price, 1, 1, bad)), bad


def test_a_call_costs_what_the_list_says_in_billionths() -> None:
    price = Price(3, 15)
    assert price.cost(0, 0) == 0
    assert price.cost(1_000_000, 0) == 3_000_000_000
    assert price.cost(0, 1_000_000) == 15_000_000_000
    assert price.cost(1000, 100) == 3_000_000 + 1_500_000
    assert Price(0.15, 0.6).cost(1, 1) == 750


def test_a_price_is_taken_to_the_nearest_millionth_of_a_dollar() -> None:
    for micro in (1, 7, 999_999, 2_010_000, 4_020_000, 8_030_000):
        assert Price(micro / 1_000_000, 0).cost(1000, 0) == micro, micro


def test_a_fraction_of_a_billionth_is_rounded_up_once_a_call() -> None:
    price = Price(0.000001, 0.0004)
    assert [price.cost(0, count) for count in (0, 1, 2, 3, 5)] == [0, 1, 1, 2, 2]
    assert price.cost(1, 0) == 1
    assert price.cost(1000, 0) == 1
    assert price.cost(1001, 0) == 2


def test_costs_are_whole_numbers_however_large() -> None:
    cost = Price(75, 1_000_000).cost((1 << 60) - 1, (1 << 60) - 1)
    assert isinstance(cost, int)
    assert cost == ((1 << 60) - 1) * 1_000_075_000


def test_cached_tokens_have_their_own_price_and_are_part_of_the_prompt() -> None:
    price = Price(3, 15, 0.3)
    assert price.cost(1000, 0, 400) == 600 * 3000 + 400 * 300
    assert price.cost(1000, 0, 1000) == price.cost(1000, 0, 5000) == 300_000
    assert Price(3, 15).cost(1000, 0, 400) == Price(3, 15).cost(1000, 0)
    assert Price(3, 15, 0).cost(1000, 0, 1000) == 0


def test_affordable_is_the_largest_completion_whose_cost_fits() -> None:
    for one, other in PRICES:
        price = Price(one, other)
        for money in (0, 1, 2, 999, 1000, 3001, 15_000):
            for prompt in (0, 1, 2, 7, 333):
                most = price.affordable(money, prompt)
                case = (one, other, money, prompt, most)
                if most is None:
                    assert other == 0, case
                    assert price.cost(prompt, 10**9) <= money, case
                elif most < 0:
                    assert most == -1, case
                    assert price.cost(prompt, 0) > money, case
                else:
                    assert price.cost(prompt, most) <= money < price.cost(prompt, most + 1), case


def test_what_is_free_is_affordable_without_money() -> None:
    assert Price(0, 0).affordable(0, 1000) is None
    assert Price(0, 1).affordable(0, 1000) == 0
    assert Price(1, 0).affordable(0, 1) == -1
    assert Price(1, 0).affordable(1000, 1) is None


def test_tokens_written_to_a_cache_have_a_price_of_their_own() -> None:
    price = Price(3, 15, cached=0.3, cache_write=3.75)
    assert price.cost(100, 0, 0, 100) == 375_000
    assert price.cost(100, 10, 40, 50) == 10 * 3_000 + 40 * 300 + 50 * 3_750 + 10 * 15_000
    assert price.cost(100, 0, 80, 50) == 80 * 300 + 20 * 3_750
    assert Price(3, 15).cost(100, 0, 0, 100) == 300_000


PLAIN: "dict[str, Any]" = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
SEARCHES: "dict[str, Any]" = {
    "input_tokens": 100,
    "output_tokens": 20,
    "server_tool_use": {"web_search_requests": 5},
}


def test_writes_for_an_hour_have_a_price_of_their_own() -> None:
    price = Price(3, 15, cache_write="3.75", cache_write_1h=6)
    assert price.cost(100, 0, 0, 100, 100) == 600_000
    assert price.cost(100, 0, 0, 60, 40) == 40 * 3_000 + 20 * 3_750 + 40 * 6_000
    assert price.cost(100, 0, 0, 60, 80) == 40 * 3_000 + 60 * 6_000
    assert Price(3, 15, cache_write="3.75").cost(100, 0, 0, 100, 100) == 375_000


def test_a_call_may_cost_something_beside_its_tokens() -> None:
    price = Price(1, 2, request="0.005")
    assert price.cost(0, 0) == 5_000_000
    assert price.cost(1_000, 10) == 5_000_000 + 1_000_000 + 20_000
    assert price.affordable(5_999_999, 1_000) == -1
    assert price.affordable(6_020_000, 1_000) == 10
    assert price.cost_of(PLAIN) == (5_140_000, True)
    nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert price.cost_of(nothing) == (0, True)


def test_a_report_that_is_missing_or_damaged_marks_the_call() -> None:
    price = Price(1, 2)
    for missing in (None, {}, {"total_tokens": None}):
        assert price.cost_of(missing) == (0, False), missing
    assert price.cost_of({"prompt_tokens": 5, "completion_tokens": -1}) == (5_000, False)
    assert price.cost_of(dict(PLAIN, total_tokens="many")) == (140_000, False)
    assert price.cost_of(dict(PLAIN, estimated=True)) == (140_000, True)


def test_a_cost_says_whether_it_is_all() -> None:
    price = Price(3, 15)
    assert price.cost_of(PLAIN) == (600_000, True)
    assert price.cost_of(SEARCHES) == (600_000, False)
    assert price.cost_of(dict(SEARCHES, server_tool_use=None)) == (600_000, True)
    for name, value in (
        ("audio_tokens", 5),
        ("num_sources_used", 1),
        ("something_new", 0.5),
        ("something_new", True),
        ("something_new", "dear"),
        ("something_new", {"of_it": 1}),
        ("something_new", [{"of_it": 1}]),
        ("something_new", [5]),
        ("something_new", object()),
        ("service_tier", "priority"),
        ("speed", "fast"),
        ("inference_geo", "us"),
        ("prompt_tokens_details", {"cached_tokens": 0, "audio_tokens": 50, "text_tokens": -50}),
    ):
        assert price.cost_of(dict(PLAIN, **{name: value})) == (600_000, False), (name, value)
    for name, value in (
        ("something_new", 0),
        ("something_new", None),
        ("something_new", {}),
        ("something_new", {"of_it": 0, "more": [], "none": None}),
        ("service_tier", "standard"),
        ("service_tier", "default"),
        ("model", "small"),
        ("estimated", True),
    ):
        assert price.cost_of(dict(PLAIN, **{name: value})) == (600_000, True), (name, value)


def test_a_known_name_in_another_place_is_not_known() -> None:
    details = {"cached_tokens": 0, "cache_read_input_tokens": 50}
    assert not Price(3, 15).cost_of(dict(PLAIN, prompt_tokens_details=details))[1]


def test_a_tier_that_is_not_the_standard_one_marks_the_call() -> None:
    price = Price(3, 15)
    for tier in ("flex", "priority", "batch"):
        assert price.cost_of(PLAIN, tier) == (600_000, False), tier
    usual: tuple[Any, ...] = (None, "", "default", "standard", "on_demand", 5)
    for tier in usual:
        assert price.cost_of(PLAIN, tier) == (600_000, True), tier


def test_what_is_written_to_a_cache_without_a_tariff_marks_the_call() -> None:
    report = dict(PLAIN, prompt_tokens_details={"cached_tokens": 0, "cache_write_tokens": 50})
    assert Price(3, 15).cost_of(report) == (600_000, False)
    assert Price(3, 15, cache_write="3.75").cost_of(report) == (637_500, True)


def test_writes_for_an_hour_without_a_tariff_mark_the_call() -> None:
    report = {
        "input_tokens": 10,
        "output_tokens": 10,
        "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100},
    }
    assert not Price(3, 15).cost_of(report)[1]
    assert not Price(3, 15, cache_write="3.75").cost_of(report)[1]
    price = Price(3, 15, cache_write="3.75", cache_write_1h=6)
    assert price.cost_of(report) == (30_000 + 150_000 + 600_000, True)
    plain = {"input_tokens": 0, "output_tokens": 0}
    for iterations in ([report], [report, dict(report, type="compaction")]):
        inside = dict(plain, iterations=iterations)
        assert price.cost_of(inside) == (780_000 * len(iterations), True)


def test_writes_for_an_hour_that_are_not_among_the_counted_ones_mark_the_call() -> None:
    price = Price(3, 15, cache_write="3.75", cache_write_1h=6)
    report: dict[str, Any] = {"input_tokens": 100, "output_tokens": 20}
    report["cache_creation"] = {"ephemeral_1h_input_tokens": 500}
    assert price.cost_of(report) == (600_000, False)
    report["cache_creation_input_tokens"] = 50
    assert price.cost_of(report) == (600_000 + 300_000, False)


def test_iterations_within_iterations_mark_the_call() -> None:
    part: dict[str, Any] = {"input_tokens": 100, "output_tokens": 20}
    nested = dict(part, iterations=[dict(part, iterations=[part, part])])
    assert Price(3, 15).cost_of(nested) == (600_000, False)


def test_tokens_that_may_be_input_or_output_cost_as_the_dearer() -> None:
    assert Price(3, 15).cost_of({"total_tokens": 100}) == (1_500_000, False)
    assert Price("0.06", 0).cost_of({"total_tokens": 100}) == (6_000, True)
    assert Price(5, 1).cost_of({"total_tokens": 100}) == (500_000, False)


class Strange:
    """A report that cannot be looked through."""

    prompt_tokens, completion_tokens, total_tokens = 100, 20, 120

    @property
    def model_extra(self) -> "dict[str, Any]":
        raise RuntimeError("not now")


def test_a_report_that_cannot_be_looked_through_marks_the_call() -> None:
    endless = dict(PLAIN)
    endless["more"] = endless
    for report in (endless, Strange()):
        assert Price(3, 15).cost_of(report) == (600_000, False)


def test_a_model_finds_its_price_with_its_providers_name_before_it() -> None:
    small = Price(1, 2)
    table = {"small": small, "acme/small": Price(3, 4)}
    assert price_of(table, "small") is small
    assert price_of(table, "openrouter/openai/small") is small
    assert price_of(table, "acme/small") is table["acme/small"]
    assert price_of(table, "other/acme/small") is table["acme/small"]
    for unknown in ("large", "small/", "/", "", "openai/large"):
        assert price_of(table, unknown) is None, unknown
    assert "prices of small" in str(raises(ValueError, price_of, {"small": 5}, "small"))


class Asks(Middleware):
    """Asks for a service tier."""

    def __init__(self, tier: str) -> None:
        self._tier = tier

    def before_llm(self, request: "Any", budget: "Any") -> None:
        request.options["service_tier"] = self._tier


async def test_a_run_counts_a_call_that_is_not_fully_priced() -> None:
    played = await play(
        says("done", SEARCHES),
        budget=Budget(max_usd=1, last_call=None),
        prices={"script": Price(3, 15)},
        model="openai/script",
    )
    assert played.result.usage["unpriced"] == 1
    assert played.result.usage["tokens"] == 120
    assert played.result.usage["nano_usd"] == 600_000


async def test_a_run_counts_a_call_at_another_tier() -> None:
    for tier, unpriced in (("default", 0), ("priority", 1)):
        played = await play(says("done", PLAIN, service_tier=tier), prices={"script": Price(3, 15)})
        assert played.result.usage["unpriced"] == unpriced
        assert played.result.usage["nano_usd"] == 600_000


async def test_the_tier_that_was_asked_for_counts_where_the_answer_names_none() -> None:
    for tier, served, unpriced in (("flex", None, 1), ("flex", "default", 0), ("auto", None, 1)):
        played = await play(
            says("done", PLAIN, service_tier=served),
            prices={"script": Price(3, 15)},
            middleware=[Asks(tier)],
        )
        assert played.result.usage["unpriced"] == unpriced, (tier, served)


async def test_the_account_of_a_run_is_charged_what_was_held_for_such_a_call() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("usd", 1), Limit("tokens", None)])
    played = await play(
        says("done", SEARCHES),
        budget=Budget(max_tokens_per_turn=50, last_call=None),
        prices={"script": Price(3, 15)},
        count_tokens=lambda messages, tools: 100,
        ledger=ledger,
        account="org",
    )
    spent = {row.axis: row.spent for row in ledger.balance("org")}
    assert spent == {"tokens": 120, "nano_usd": 100 * 3_000 + 50 * 15_000}
    assert played.result.usage["nano_usd"] == 600_000
    assert played.result.usage["unpriced"] == 1


async def test_an_account_is_charged_what_was_held_for_a_call_that_is_not_fully_priced() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("usd", 1), Limit("tokens", None)])
    model = BudgetWrapper(
        Script(says("one", SEARCHES), says("two", PLAIN)),
        ledger=ledger,
        account="org",
        prices={"script": Price(3, 15)},
        count_tokens=lambda messages, tools: 100,
    )
    await model.chat([QUESTION], max_tokens=50)
    spent = {row.axis: row.spent for row in ledger.balance("org")}
    assert spent == {"tokens": 120, "nano_usd": 100 * 3_000 + 50 * 15_000}
    assert model.unpriced == 1
    await model.chat([QUESTION], max_tokens=50)
    spent = {row.axis: row.spent for row in ledger.balance("org")}
    assert spent == {"tokens": 240, "nano_usd": 1_050_000 + 600_000}
    assert model.unpriced == 1


def test_a_repr_says_what_tokens_cost() -> None:
    assert repr(Price("0.075", 3)) == "<Price: $0.075 in, $3.00 out per million tokens>"


async def test_a_wrapper_counts_the_tier_that_was_asked_for() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("usd", 1)])
    answers = says("one", PLAIN), says("two", PLAIN, service_tier="default"), says("three", PLAIN)
    prices = {"script": Price(3, 15)}
    model = BudgetWrapper(Script(*answers), ledger=ledger, account="org", prices=prices)
    for unpriced in (1, 1, 2):
        await model.chat([QUESTION], max_tokens=50, service_tier="flex")
        assert model.unpriced == unpriced


def answered_by(model: "str | None") -> "Any":
    """Return an answer that says which model gave it."""
    answer = says("done", PLAIN)
    answer.model = model
    return answer


class Routed:
    """A user's own price, which says itself what the models behind a router cost."""

    def __init__(self, *usd: float) -> None:
        price = Price(*usd)
        self.cost, self.affordable, self.cost_of = price.cost, price.affordable, price.cost_of

    def answered_by(self, model: str) -> "Any":
        return Price(9, 90) if model == "behind" else None


CHARGED = (  # the model that answers, and the nano-USD of 100 tokens in and 20 out
    (None, 600_000),
    ("script", 600_000),
    ("script-2026-11-22", 600_000),
    ("large", 6_000_000),
    ("vendor/large", 6_000_000),
    ("free", 0),
)


async def test_the_model_that_answered_is_charged_for_by_a_plain_table() -> None:
    prices = {"script": Price(3, 15), "large": Price(30, 150), "free": Price(0, 0)}
    for model, nano_usd in CHARGED:
        played = await play(answered_by(model), prices=prices)
        assert played.result.usage["nano_usd"] == nano_usd, model
        ledger = Ledger()
        ledger.set_limits("org", [Limit("usd", 1)])
        script = Script(answered_by(model))
        wrapper = BudgetWrapper(script, ledger=ledger, account="org", prices=prices)
        await wrapper.chat([QUESTION], max_tokens=50)
        assert (ledger.balance("org")[0].spent, wrapper.unpriced) == (nano_usd, 0), model
        await play(answered_by(model), prices=prices, ledger=ledger, account="org")
        assert ledger.balance("org")[0].spent == 2 * nano_usd, model


async def test_a_price_of_ones_own_may_say_who_is_charged_for() -> None:
    prices = {"script": Routed(3, 15), "large": Price(30, 150)}
    for model, nano_usd in (
        ("behind", 2_700_000),
        ("other", 600_000),
        ("large", 6_000_000),
        (None, 600_000),
    ):
        played = await play(answered_by(model), prices=prices)
        assert played.result.usage["nano_usd"] == nano_usd, model

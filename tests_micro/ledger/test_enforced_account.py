"""What a wrapper holds in a ledger before a call, and what it records after."""

from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.prices import Price
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import (
    HELLO,
    HI,
    NOON,
    PRICES,
    Awaited,
    big,
    looks,
    make_ledger,
    standing,
    wrapped,
)
from tests_micro.script import says
from tests_micro.support import FakeClock, raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


async def test_a_call_is_held_before_and_counts_as_what_was_reported_after() -> None:
    ledger = make_ledger(tokens=10_000, calls=5, nano_usd=10**9)
    seen: list[Any] = []
    model = big(looks(ledger, seen))
    response = await wrapped(model, ledger).chat(HELLO, max_tokens=100)
    assert (response.content, response.cut_off_by) == ("hi", None)
    assert seen == [{"calls": (0, 1), "nano_usd": (0, 1_010_000), "tokens": (0, 110)}]
    assert standing(ledger) == {"calls": (1, 0), "nano_usd": (210_000, 0), "tokens": (30, 0)}


async def test_a_ledger_that_is_awaited_does_the_same() -> None:
    ledger = make_ledger(tokens=10_000, nano_usd=10**9)
    await wrapped(big(), Awaited(ledger)).chat(HELLO, max_tokens=100)
    assert standing(ledger) == {"nano_usd": (210_000, 0), "tokens": (30, 0)}


async def test_an_answer_without_a_bound_gets_the_wrappers() -> None:
    model = big()
    await wrapped(model, make_ledger(tokens=10_000), max_tokens=700).chat(HELLO)
    await wrapped(model, make_ledger(tokens=10_000)).chat(HELLO)
    assert model.limits == [700, 4096]


async def test_an_answer_is_cut_to_what_is_left_of_tokens() -> None:
    ledger = make_ledger(tokens=60)
    seen: list[Any] = []
    model = big(looks(ledger, seen))
    await wrapped(model, ledger).chat(HELLO, max_tokens=100)
    assert (model.limits[0], seen[0]) == (50, {"tokens": (0, 60)})


async def test_an_answer_is_cut_to_what_is_left_of_money() -> None:
    ledger = make_ledger(nano_usd=110_000)
    seen: list[Any] = []
    model = big(looks(ledger, seen))
    await wrapped(model, ledger).chat(HELLO, max_tokens=100)
    assert (model.limits[0], seen[0]) == (10, {"nano_usd": (0, 110_000)})


async def test_an_answer_is_cut_to_the_tightest_of_all_limits_above() -> None:
    ledger = make_ledger(tokens=60, nano_usd=110_000)
    ledger.set_limits("org", [Limit("tokens", 17, "run"), Limit("tokens", 40, "hour")])
    model = big()
    await wrapped(model, ledger).chat(HELLO, max_tokens=100)
    assert model.limits[0] == 7


async def test_an_answer_fits_what_its_prompt_costs_where_a_cache_is_written() -> None:
    ledger = make_ledger(nano_usd=410_000)
    prices = {"big": Price(1, 10, cache_write=21)}
    model = big(
        says("hi", {"input_tokens": 0, "cache_creation_input_tokens": 10, "output_tokens": 20})
    )
    await wrapped(model, ledger, prices=prices).chat(HELLO, max_tokens=100)
    assert model.limits[0] == 20
    assert standing(ledger) == {"nano_usd": (410_000, 0)}


async def test_a_call_that_does_not_fit_is_answered_in_the_models_place() -> None:
    model = big()
    for caps in ({"tokens": 10}, {"nano_usd": 19_999}, {"calls": 0}):
        ledger = make_ledger(**caps)
        response = await wrapped(model, ledger).chat(HELLO, max_tokens=100)
        assert (response.cut_off_by, response.usage["total_tokens"]) == ("org/team", 0)
        if "tokens" in caps:
            left = "[Budget exhausted] org/team has 10 of 10 tokens per day left"
        elif "nano_usd" in caps:
            left = "[Budget exhausted] org/team has $0.000019999 of $0.000019999 per day left"
        else:
            left = "[Budget exhausted] The org/team budget is spent (0 of 0 calls per day)"
        assert response.content.startswith(left)
        assert set(standing(ledger).values()) == {(0, 0)}
    assert model.requests == []


async def test_a_refusal_is_raised_with_raises() -> None:
    wrapper = wrapped(big(), make_ledger(tokens=10), raises=True)
    error = await raises_async(BudgetExceededError, wrapper.chat, HELLO)
    assert (error.scope, error.axis, error.limit) == ("org/team", "tokens", 10)
    assert error.resets_at is not None


async def test_a_dear_call_is_the_fallbacks_with_a_price_of_its_own() -> None:
    ledger = make_ledger(nano_usd=12_000)
    model = big()
    options = {"enforcement": "fallback", "fallback_model": "small"}
    wrapper = wrapped(model, ledger, **options)
    assert (await wrapper.chat(HELLO, max_tokens=100)).content == "hi"
    assert (model.models[0], model.limits[0]) == ("small", 11)
    assert standing(ledger) == {"nano_usd": (21_000, 0)}
    assert (await wrapper.chat(HELLO, max_tokens=100)).cut_off_by == "org/team"


async def test_to_warn_says_so_once_and_charges_what_was_used() -> None:
    ledger = make_ledger(tokens=15)
    model = big()
    wrapper = wrapped(model, ledger, enforcement="warn")
    for _ in range(3):
        await wrapper.chat(HELLO)
    said = [len(messages) for messages in model.sent]
    assert (said, len(HELLO)) == ([1, 2, 1], 1)
    assert model.sent[1][1]["content"].startswith("[Budget exhausted]")
    assert model.limits == [None, None, None]
    assert standing(ledger) == {"tokens": (90, 0)}


async def test_to_observe_only_counts() -> None:
    ledger = make_ledger(tokens=5_000)
    model = big()
    wrapper = wrapped(model, ledger, enforcement="observe")
    for limit in (None, 20, 9_000):
        await wrapper.chat(HELLO, max_tokens=limit)
    assert model.limits == [None, 20, 9_000]
    assert model.sent == [HELLO] * 3
    assert standing(ledger) == {"tokens": (90, 0)}


async def test_a_hook_is_called_once_for_each_limit() -> None:
    heard: list[Any] = []
    wrapper = wrapped(
        big(), make_ledger(tokens=10), on_limit_reached=lambda **told: heard.append(told)
    )
    for _ in range(3):
        await wrapper.chat(HELLO)
    told = {"scope": "org/team", "utilization": 1.0, "used": 0, "cap": 10, "unit": "tokens"}
    assert heard == [told]


async def test_unknown_is_not_zero_where_money_is_limited() -> None:
    model = big()
    ledger = make_ledger(nano_usd=10**9)
    for prices in (None, {"other": Price(1, 1)}):
        response = await wrapped(model, ledger, prices=prices).chat(HELLO)
        assert response.cut_off_by == "org/team"
        assert "no price is known for big" in response.content
    assert model.requests == []
    await wrapped(model, make_ledger(nano_usd=None, tokens=99), prices=None).chat(HELLO)
    assert len(model.requests) == 1


async def test_a_path_without_an_account_is_a_mistake_and_raised() -> None:
    wrapper = wrapped(big(), Ledger(FakeClock(NOON)))
    await raises_async(UnknownAccountError, wrapper.chat, HELLO)


async def test_a_malformed_count_of_tokens_is_refused() -> None:
    ledger = make_ledger(tokens=10_000)
    await raises_async(ValueError, wrapped(big(), ledger).chat, HELLO, max_tokens=-5)
    count = {"count_tokens": lambda messages, tools: -1}
    await raises_async(ValueError, wrapped(big(), ledger, **count).chat, HELLO)
    assert standing(ledger) == {"tokens": (0, 0)}


async def test_a_tracker_counts_beside_the_ledger() -> None:
    ledger = make_ledger(tokens=10_000)
    tracker = TurnBudgetTracker()
    wrapper = wrapped(big(), ledger, tracker=tracker)
    await wrapper.chat(HELLO)
    assert (tracker.total_tokens, tracker.iterations_seen) == (30, 1)
    own = wrapped(big(), ledger)
    await own.chat(HELLO)
    assert own.tracker.total_tokens == 30


async def test_of_two_wrappers_with_ledgers_the_inner_ones_refusal_costs_nothing() -> None:
    ledger, inner = make_ledger(tokens=10_000, calls=9), make_ledger(tokens=10)
    response = await wrapped(wrapped(big(), inner), ledger).chat(HELLO)
    assert response.cut_off_by == "org/team"
    assert standing(ledger) == {"calls": (0, 0), "tokens": (0, 0)}
    wrapper = wrapped(wrapped(big(), inner, raises=True), ledger, estimates=True)
    await raises_async(BudgetExceededError, wrapper.chat, HELLO)
    assert standing(ledger) == {"calls": (0, 0), "tokens": (0, 0)}
    assert wrapper.tracker.total_tokens == 0


def test_options_that_make_no_sense_are_refused() -> None:
    ledger = make_ledger(tokens=1)
    for options in (
        {"ledger": None, "account": "a"},
        {"ledger": ledger, "account": "a//b"},
        {"ledger": ledger, "account": "a", "ttl": 0},
        {"ledger": ledger, "account": "a", "max_tokens": -1},
        {"prices": PRICES},
        {},
    ):
        raises(ValueError, BudgetWrapper, big(), **options)
    assert "account must be" in str(raises(ValueError, BudgetWrapper, big(), ledger=ledger))
    raises(TypeError, BudgetWrapper, big(), ledgr=ledger)


def test_no_ledger_is_as_good_as_none_given() -> None:
    tracker = TurnBudgetTracker(ledger=None, account=None)
    assert tracker.total_tokens == 0
    model = big()
    wrapper = BudgetWrapper(model, tracker, ledger=None, account=None)
    assert wrapper.inner is model
    raises(ValueError, BudgetWrapper, model, ledger=None, account=None)


def test_one_account_is_not_counted_on_twice() -> None:
    ledger = make_ledger(tokens=1)
    ledger.set_limits("other", [Limit("tokens", 1)])
    within = BudgetWrapper(big(), ledger=ledger, account="org/team")
    tracked = BudgetWrapper(big(), TurnBudgetTracker(ledger=ledger, account="org/team"))
    layers = BudgetWrapper(within, ledger=Ledger(), account="org/team")
    for inner in (within, tracked, BudgetWrapper(within, TurnBudgetTracker()), layers):
        for account in ("org", "org/team", "org/team/agent"):
            raises(ValueError, BudgetWrapper, inner, ledger=ledger, account=account)
        for account in ("other", "org/teams"):
            BudgetWrapper(inner, ledger=ledger, account=account)
    raises(ValueError, BudgetWrapper, big(), tracked.tracker, ledger=ledger, account="org/team")


async def test_malformed_prices_are_refused() -> None:
    class Lost:
        def get(self, model: str) -> "Any":
            raise OSError(2)

    ledger = make_ledger(tokens=10_000)
    error = await raises_async(ValueError, wrapped(big(), ledger, prices={"big": 3.0}).chat, HELLO)
    assert str(error) == "prices of big must be a Price, not 3.0"
    await raises_async(OSError, wrapped(big(), ledger, prices=Lost()).chat, HELLO)
    assert standing(ledger) == {"tokens": (0, 0)}


async def test_a_debt_of_money_stops_nothing_that_is_free() -> None:
    ledger = make_ledger(nano_usd=10, tokens=10_000)
    ledger.charge("org/team", {"nano_usd": 11})
    model = big(OSError(104), HI)
    prices = {"big": Price(1, 10), "free": Price(0, 0)}
    options = {"enforcement": "fallback", "fallback_model": "free", "prices": prices}
    wrapper = wrapped(model, ledger, **options)
    await raises_async(OSError, wrapper.chat, HELLO, max_tokens=100)
    assert standing(ledger) == {"nano_usd": (11, 0), "tokens": (110, 0)}
    assert (await wrapper.chat(HELLO, max_tokens=100)).content == "hi"
    assert model.models[1] == "free"
    assert standing(ledger) == {"nano_usd": (11, 0), "tokens": (140, 0)}


async def test_a_call_well_within_its_account_has_nothing_to_decide() -> None:
    wrapper = wrapped(big(), make_ledger(tokens=100_000))
    await wrapper.chat(HELLO)
    assert not wrapper.tracker.alert
    assert not wrapper.ledger_account.cached_balance.is_due(wrapper.tracker.due_ppm)
    wrapper.ledger_account.cached_balance.add({"tokens": 90_000})
    assert wrapper.ledger_account.cached_balance.is_due(wrapper.tracker.due_ppm)

"""LLM calls on an account that has too little for all of them at once."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.operative import Operative
from budget_core.agent.stop import StopReason
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.limit import Limit
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.memory import Ledger
from budget_core.provider import ChatResponse
from budget_core.wrapper import BudgetWrapper
from tests_micro.script import Script
from tests_micro.support import FakeClock, raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
NOON = 20_514 * 86_400 + 43_200
PATIENCE = 120  # seconds, where only hanging is to be seen
PROMPT = 6


class Model(Script):
    """A model whose answers have `tokens` tokens, or what is allowed if that is less.

    It answers once `goes_on` is set; `limits` has what each call was allowed. One that is not
    `obedient` takes no notice of that.
    """

    def __init__(self, tokens: int = 300, waits: bool = False, obedient: bool = True) -> None:
        super().__init__(self._answer, model="m")
        self.tokens = tokens
        self.obedient = obedient
        self.goes_on = asyncio.Event()
        self.in_flight = self.wanted = 0
        self.reached = asyncio.Event()
        if not waits:
            self.goes_on.set()

    async def has_in_flight(self, calls: int) -> None:
        """Return once so many calls are in flight."""
        self.wanted = calls
        await self.reached.wait()

    async def _answer(self, request: "Any") -> ChatResponse:
        self.in_flight += 1
        if self.in_flight == self.wanted:
            self.reached.set()
        try:
            await asyncio.sleep(0)
            await self.goes_on.wait()
        finally:
            self.in_flight -= 1
        said = min(self.tokens, request["max_tokens"]) if self.obedient else self.tokens
        usage = {"prompt_tokens": PROMPT, "completion_tokens": said, "total_tokens": PROMPT + said}
        return ChatResponse(
            "Hi.", usage=usage, finish_reason="length" if said < self.tokens else "stop"
        )


def opened(cap: int, **options: "Any") -> Ledger:
    """Return a ledger whose account `org` may use so many tokens."""
    ledger = Ledger(FakeClock(NOON), **options)
    ledger.set_limits("org", [Limit("tokens", cap)])
    return ledger


def wrapped(model: Model, ledger: Ledger, **options: "Any") -> BudgetWrapper:
    """Return a wrapper whose calls draw on `org`, each with a prompt of 6 tokens."""
    return BudgetWrapper(
        model, ledger=ledger, account="org", count_tokens=lambda messages, tools: PROMPT, **options
    )


async def at_once(wrapper: BudgetWrapper, calls: int) -> "list[Any]":
    """Make calls side by side, and return their answers."""
    answers: Any = await asyncio.gather(*[wrapper.chat(HELLO) for _ in range(calls)])
    return list(answers)


def served(answers: "list[Any]") -> int:
    """Return how many calls a model answered."""
    return len([one for one in answers if one.cut_off_by is None])


async def test_fifty_calls_at_once_whose_worst_cases_do_not_fit_are_all_served() -> None:
    ledger, model = opened(20_000), Model()
    answers = await at_once(wrapped(model, ledger, wait=PATIENCE), 50)
    [row] = ledger.balance("org")
    assert (served(answers), row.spent, row.held) == (50, 15_300, 0)
    assert set(model.limits) == {4096}  # nobody's answer was cut


async def test_without_wait_most_of_them_are_refused() -> None:
    answers = await at_once(wrapped(Model(), opened(20_000)), 50)
    assert served(answers) == 5


async def test_with_what_is_expected_more_calls_are_in_flight_and_none_is_over() -> None:
    ledger, model = opened(20_000), Model(waits=True)
    wrapper = wrapped(model, ledger, wait=PATIENCE, expect=400)
    answers = asyncio.create_task(at_once(wrapper, 50))
    await model.has_in_flight(12)
    [row] = ledger.balance("org")
    assert row.spent + row.held <= 20_000
    # a hold below the worst case lowers the answer's limit with it
    assert model.limits == [4096] * 4 + [400] * 8
    assert row.held == 4 * (PROMPT + 4096) + 8 * (PROMPT + 400)
    model.goes_on.set()
    assert served(await answers) == 50
    [row] = ledger.balance("org")
    assert (row.spent, row.held) == (15_300, 0)


async def test_a_call_alone_holds_its_worst_case_whatever_is_expected() -> None:
    model = Model()
    await at_once(wrapped(model, opened(20_000), expect=400), 1)
    assert model.limits == [4096]


async def test_an_answer_that_is_longer_than_expected_is_cut_and_says_so() -> None:
    ledger, model = opened(5_000), Model(tokens=600, waits=True)
    calls = asyncio.create_task(at_once(wrapped(model, ledger, wait=PATIENCE, expect=400), 2))
    await model.has_in_flight(2)
    model.goes_on.set()
    assert [one.finish_reason for one in await calls] == ["stop", "length"]
    [row] = ledger.balance("org")
    assert row.spent == 606 + 406


async def test_a_model_that_ignores_its_limit_is_over_by_what_calls_in_flight_used_beyond() -> None:
    ledger, model = opened(1_000), Model(waits=True, obedient=False)
    ledger.reserve("org", {"tokens": 500})
    calls = asyncio.create_task(at_once(wrapped(model, ledger, wait=PATIENCE, expect=100), 20))
    await model.has_in_flight(4)  # with 106 of 500 held for each
    await rest()
    model.goes_on.set()
    assert served(await calls) == 4
    [row] = ledger.balance("org")
    assert (row.spent, row.held) == (4 * 306, 500)
    assert row.spent + row.held - 1_000 <= 4 * (306 - 106)


async def test_without_wait_what_is_expected_is_taken_or_what_is_left() -> None:
    ledger, model = opened(5_000), Model(waits=True)
    calls = asyncio.create_task(at_once(wrapped(model, ledger, expect=400), 4))
    await model.has_in_flight(4)
    assert model.limits == [4096, 400, 400, 80]  # of 5,000: 86 were left for the last
    model.goes_on.set()
    await calls


async def test_an_answer_is_cut_to_what_is_not_spent() -> None:
    ledger, model = opened(1_000), Model()
    answers = await at_once(wrapped(model, ledger, wait=PATIENCE), 3)
    [row] = ledger.balance("org")
    assert (served(answers), row.spent, row.held) == (3, 918, 0)
    assert model.limits == [994, 688, 382]


async def test_what_is_spent_is_refused_at_once() -> None:
    ledger = opened(1_000)
    ledger.charge("org", {"tokens": 1_000})
    [answer] = await at_once(wrapped(Model(), ledger, wait=PATIENCE), 1)
    assert answer.cut_off_by == "org"


async def test_a_call_that_waited_in_vain_says_how_long() -> None:
    ledger = opened(1_000)
    ledger.reserve("org", {"tokens": 996})
    wrapper = wrapped(Model(), ledger, wait=0.06, raises=True)
    error = await raises_async(BudgetExceededError, wrapper.chat, HELLO)
    assert (error.waited_ms, error.is_held) == (60, True)


async def test_a_call_that_waited_in_vain_takes_what_is_left() -> None:
    ledger, model = opened(1_000), Model()
    ledger.reserve("org", {"tokens": 900})
    assert served(await at_once(wrapped(model, ledger, wait=0.01), 1)) == 1
    assert model.limits == [94]


async def test_a_call_that_is_cancelled_while_it_waits_leaves_nothing() -> None:
    ledger, model = opened(5_000), Model()
    held = ledger.reserve("org", {"tokens": 4_999})
    wrapper = wrapped(model, ledger, wait=PATIENCE)
    call = asyncio.create_task(at_once(wrapper, 1))
    for _ in range(20):
        await asyncio.sleep(0)
    call.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    ledger.release(held)
    [row] = ledger.balance("org")
    assert (row.spent, row.held, model.limits) == (0, 0, [])


async def test_calls_on_a_money_limit_wait_too() -> None:
    from budget_core.prices import Price

    ledger, model = opened(100_000), Model()
    ledger.set_limits("org", [Limit("nano_usd", 5_000_000)])
    prices = {"m": Price(0, 1)}  # 1,000 nano-USD a token
    answers = await at_once(wrapped(model, ledger, wait=PATIENCE, prices=prices), 10)
    [row] = ledger.balance("org")
    assert (served(answers), row.spent, row.held) == (10, 3_000_000, 0)


async def test_the_calls_of_runs_wait_within_their_time() -> None:
    ledger, model = opened(5_000), Model()
    agents = [
        Operative(model, ledger=ledger, account="org", wait=PATIENCE, max_tokens=4096)
        for _ in range(5)
    ]
    results: Any = await asyncio.gather(*[agent.run("hello") for agent in agents])
    assert [result.completed for result in results] == [True] * 5
    held = ledger.reserve("org", {"tokens": 4_999 - ledger.balance("org")[0].spent})
    result: Any = await agents[0].run("hello", Budget(timeout=0.05))
    assert result.reason.kind == StopReason.TIMEOUT
    ledger.release(held)
    assert ledger.balance("org")[0].held == 0


async def test_a_child_waits_as_long_as_its_parent() -> None:
    envelope = Envelope.open(Budget(), ledger=opened(100), account="org", wait=5, expect=40)
    child = envelope.child(name="child")
    child.draw_on(None, "org/child", None, None, None, None)
    assert (child.ledger.wait_ms, child.ledger.expect) == (5_000, 40)


async def test_what_is_expected_is_learned_from_the_answers_of_a_model() -> None:
    ledger, model = opened(10_000_000), Model()
    wrapper = wrapped(model, ledger, wait=PATIENCE, expect="learned")
    for number in range(400):
        model.tokens = 100 + number * 37 % 200
        await at_once(wrapper, 1)
    ledger.set_limits("org", [Limit("tokens", ledger.balance("org")[0].spent + 5_000)])
    ledger.reserve("org", {"tokens": 4_000})
    await at_once(wrapper, 1)
    assert 275 <= model.limits[-1] <= 300


async def test_what_is_learned_rises_by_a_quarter_where_an_answer_was_cut() -> None:
    ledger, model = opened(1_000_000), Model(tokens=100)
    wrapper = wrapped(model, ledger, expect="learned")
    await at_once(wrapper, 1)
    ledger.set_limits("org", [Limit("tokens", 5_000)])
    ledger.reserve("org", {"tokens": 2_000})
    model.tokens = 1_000
    for _ in range(3):
        await at_once(wrapper, 1)
    assert model.limits == [4096, 100, 126, 158]


def test_malformed_options_are_refused_by_name() -> None:
    for name, value in (
        ("wait", -1),
        ("wait", "1"),
        ("expect", 0),
        ("expect", 1.5),
        ("expect", True),
        ("expect", "much"),
    ):
        error = raises(ValueError, LedgerAccount, opened(1), "org", **{name: value})
        assert str(error).startswith(name + " must be")
        assert ("'learned'" in str(error)) is (name == "expect")


async def test_a_call_falls_back_at_once_instead_of_waiting_for_the_first_model() -> None:
    from budget_core.prices import Price

    ledger, model = opened(100_000), Model()
    ledger.set_limits("org", [Limit("nano_usd", 5_000_000)])
    ledger.reserve("org", {"nano_usd": 4_700_000})
    wrapper = wrapped(
        model,
        ledger,
        wait=PATIENCE,
        prices={"m": Price(0, 1000), "small": Price(0, 1)},
        enforcement="fallback",
        fallback_model="small",
        max_tokens=300,
    )
    assert served(await at_once(wrapper, 1)) == 1


async def test_a_run_does_not_overtake_a_call_that_waits() -> None:
    ledger, model = opened(20_000), Model()
    held = ledger.reserve("org", {"tokens": 12_000})
    big = asyncio.create_task(at_once(wrapped(model, ledger, wait=PATIENCE, max_tokens=14_000), 1))
    await rest()
    run = Operative(model, ledger=ledger, account="org", wait=PATIENCE, max_tokens=1_000)
    small = asyncio.create_task(run.run("hello"))
    await rest()
    assert model.limits == []  # 8,000 are free
    ledger.release(held)
    await big
    await small
    assert model.limits[0] == 14_000


async def rest() -> None:
    """Let all tasks go on as far as they can without time."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_fifty_runs_at_once_whose_worst_cases_do_not_fit_are_all_completed() -> None:
    ledger, model = opened(20_000), Model()
    agent = Operative(model, ledger=ledger, account="org", wait=PATIENCE)
    results: Any = await asyncio.gather(*[agent.run("hello") for _ in range(50)])
    [row] = ledger.balance("org")
    assert len([result for result in results if result.completed]) == 50
    assert (row.spent, row.held) == (15_300, 0)

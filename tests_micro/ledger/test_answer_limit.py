"""How long an answer may be: without a limit, or as long as tokens and money allow."""

from budget_core.agent.budget import Budget
from budget_core.agent.operative import Operative
from budget_core.agent.stop import StopReason
from budget_core.ledger.hold import Process
from budget_core.ledger.limit import Limit
from budget_core.ledger.llm_account import LedgerAccount, UnpricedError
from budget_core.prices import Price
from budget_core.provider import ChatResponse
from tests_micro.ledger.support import (
    HELLO,
    HI,
    PRICES,
    Awaited,
    big,
    looks,
    make_ledger,
    standing,
    wrapped,
)
from tests_micro.script import Script, says
from tests_micro.support import raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROMPT = 10
ENDLESS = {"endless": Price(1, 10)}


class Lengths(Process):
    """A process that knows how long the answers of two models may be."""

    def longest_answer(self, model: str, prompt: int) -> int:
        return {"endless": 1 << 40, "short": 5000}.get(model, 0)


def ledger_with(**caps: "int | None") -> "Any":
    """Return a ledger with these limits, in a process that knows lengths."""
    ledger = make_ledger(**caps)
    ledger.process = Lengths()
    return ledger


class Counted:
    """A ledger that counts how often each method was called."""

    def __init__(self, ledger: "Any") -> None:
        self.beneath = ledger
        self.counts: dict[str, int] = {}

    def __getattr__(self, name: str) -> "Any":
        self.counts[name] = self.counts.get(name, 0) + 1
        return getattr(self.beneath, name)


async def test_limits_of_calls_and_tools_change_nothing_in_a_request() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        ledger = make_ledger(calls=9, search=9, tokens=None, nano_usd=None)
        model = big()
        wrapper = wrapped(model, wrap(ledger))
        await wrapper.chat(HELLO, [{"name": "search"}])
        await wrapper.chat(HELLO)
        assert [sorted(request) for request in model.requests] == [
            ["messages", "model", "tools"]
        ] * 2
        assert standing(ledger)["tokens"] == (60, 0)
        assert standing(ledger)["nano_usd"] == (420_000, 0)


async def test_so_it_is_in_a_run() -> None:
    script = Script(says("Done."))
    agent = Operative(
        script, (), Budget(max_turns=9), ledger=make_ledger(calls=9), account="org/team"
    )
    await agent.run("?")
    assert "max_tokens" not in script.requests[0]


async def test_an_answer_may_have_an_eighth_of_what_is_free() -> None:
    for caps, limit in (
        ({"tokens": 800_000 + PROMPT}, 100_000),
        ({"nano_usd": (800_000 * 10 + PROMPT) * 1000}, 100_000),
        ({"tokens": 800_000 + PROMPT, "nano_usd": (400_000 * 10 + PROMPT) * 1000}, 50_000),
        ({"tokens": 10_000}, 4096),
        ({"tokens": 1_000}, 990),
    ):
        model = Script(HI, model="endless")
        await wrapped(model, ledger_with(**caps), prices=ENDLESS).chat(HELLO)
        assert model.limits == [limit]


async def test_an_answer_may_be_no_longer_than_its_model_can_answer() -> None:
    for name, limit in (("short", 5000), ("unknown", 4096)):
        model = Script(HI, model=name)
        await wrapped(model, ledger_with(tokens=800_000)).chat(HELLO)
        assert model.limits == [limit]


async def test_what_is_sent_as_the_limit_is_what_is_held() -> None:
    ledger = ledger_with(tokens=800_000 + PROMPT, calls=9)
    seen: list[Any] = []
    await wrapped(Script(looks(ledger, seen), model="endless"), ledger).chat(HELLO)
    assert seen == [{"calls": (0, 1), "tokens": (0, 100_000 + PROMPT)}]


async def test_calls_in_flight_divide_the_eighth() -> None:
    account = LedgerAccount(ledger_with(tokens=800_000), "org/team")
    holds: list[Any] = []
    for _ in range(3):
        holds.append(await account.reserve("endless", 0))
    assert [hold.limit for hold in holds] == [100_000, 350_000 // 8, 656_250 // 24]
    for hold in holds:
        await hold.release()
    assert (await account.reserve("endless", 0)).limit == 100_000


async def test_a_limit_that_another_process_sets_holds_for_the_next_call() -> None:
    for caps in ({"tokens": 1_000}, {"nano_usd": (990 * 10 + PROMPT) * 1000}):
        ledger, model = make_ledger(calls=9), big()
        wrapper = wrapped(model, ledger)
        await wrapper.chat(HELLO)
        ledger.set_limits("org", [Limit(axis, caps[axis]) for axis in caps])
        await wrapper.chat(HELLO)
        assert model.limits == [None, 990]


async def test_a_limit_that_is_removed_holds_for_a_few_calls_more() -> None:
    ledger, model = make_ledger(tokens=1_000_000), big()
    wrapper = wrapped(model, ledger)
    await wrapper.chat(HELLO)
    ledger.set_limits("org/team", [Limit("calls", 99)])
    for _ in range(8):
        await wrapper.chat(HELLO)
    assert model.limits[-1] is None


async def test_a_call_asks_the_ledger_no_more_often_than_before() -> None:
    for caps in ({"calls": 99}, {"tokens": 10**9}, {"nano_usd": 10**12}):
        ledger = Counted(make_ledger(**caps))
        wrapper = wrapped(big(), ledger)
        ledger.counts.clear()
        for _ in range(8):
            await wrapper.chat(HELLO)
        assert ledger.counts == {"reserve": 8, "commit": 8, "balance": 1}


async def test_what_costs_nothing_has_no_limit_of_money() -> None:
    ledger, model = make_ledger(nano_usd=PROMPT * 1000), big()
    await wrapped(model, ledger, prices={"big": Price(1, 0)}).chat(HELLO)
    assert model.limits == [None]


async def test_without_a_price_a_limit_on_money_refuses_all_the_same() -> None:
    account = LedgerAccount(make_ledger(nano_usd=10**9), "org/team")
    await raises_async(UnpricedError, account.reserve, "m", PROMPT)


async def test_a_call_without_a_limit_is_taken_over_after_a_restart() -> None:
    ledger = make_ledger(calls=1)
    ledger.reserve("org/team", {"calls": 1}, "key")
    account = LedgerAccount(ledger, "org/team")
    hold = await account.reserve("m", PROMPT, None, PRICES["big"], True, "key")
    assert (hold.limit, hold.hold.id) == (None, "key")


async def test_where_little_is_free_twice_what_answers_had_is_held() -> None:
    account = LedgerAccount(make_ledger(tokens=10_000), "org/team")
    first = await account.reserve("m", 0)
    account.learn(first, 300)
    await first.commit({"tokens": 300})
    limits: list[Any] = []
    for _ in range(5):
        limits.append((await account.reserve("m", 0)).limit)
    assert limits == [4096, 4096, 600, 600, 308]


def cut(request: "Any") -> ChatResponse:
    """Answer with as many tokens as are allowed, or 5,000."""
    said = request.get("max_tokens") or 5000
    usage = {"prompt_tokens": 10, "completion_tokens": said, "total_tokens": 10 + said}
    return ChatResponse("hi", finish_reason="length", usage=usage)


async def test_an_answer_that_the_budget_cut_short_is_counted_and_marked() -> None:
    wrapper = wrapped(big(cut), make_ledger(tokens=10_000))
    answer = await wrapper.chat(HELLO)
    assert (answer.cut_short_by, wrapper.cut_short) == ("org/team/agent", 1)
    answer = await wrapper.chat(HELLO, max_tokens=50)
    assert (answer.cut_short_by, wrapper.cut_short) == (None, 1)
    answer = await wrapped(big(cut), make_ledger(calls=9)).chat(HELLO)
    assert answer.cut_short_by is None


async def test_the_result_of_a_run_says_whose_budget_cut_its_answer_short() -> None:
    for caps, limit, scope in (({"tokens": 30_000}, None, "org/team"), ({"calls": 9}, 50, "run")):
        budget = Budget(max_turns=9, max_tokens_per_turn=limit)
        ledger = make_ledger(**caps)
        agent = Operative(Script(cut), (), budget, ledger=ledger, account="org/team")
        result = await agent.run("?")
        assert result.reason is not None
        assert (result.reason.kind, result.reason.scope) == (StopReason.TOKEN_BUDGET, scope)
        assert ("what the account could afford" in str(result.reason)) is (limit is None)

"""Agents on accounts of a ledger: notices, fewer tools, and a final call that nobody can take."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.operative import Operative
from budget_core.agent.tool import Tool
from budget_core.config import TurnBudgetConfig
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.prices import Price
from budget_core.provider import ChatResponse, ToolCall
from budget_core.tracker import TurnBudgetTracker
from budget_core.usage_estimate import estimate_tokens
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import Awaited, Failing
from tests_micro.script import Script
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 1_800_000_000
FILE = "a line of a file, " * 30
CAP = 9_000
ANSWER = "The files are long."


class Reader(Script):
    """A model that reads a file in each call, and answers once it has no tools."""

    def __init__(self, meanwhile: "Any" = None) -> None:
        super().__init__(self._read, model="reader")
        self._meanwhile = meanwhile

    def _read(self, request: "Any") -> ChatResponse:
        if self._meanwhile is not None:
            self._meanwhile(self)
        prompt = estimate_tokens(request["messages"], request["tools"])
        usage = {"prompt_tokens": prompt, "completion_tokens": 20, "total_tokens": prompt + 20}
        if not request["tools"]:
            return ChatResponse(ANSWER, usage=usage)
        call = ToolCall(f"call-{len(self.requests)}", "read", {"name": "a"})
        return ChatResponse("Reading a again…", [call], "tool_calls", usage)

    @property
    def notices(self) -> "list[str]":
        """The notices that it got, in order."""
        users = [message for sent in self.sent for message in sent if message["role"] == "user"]
        return [message["content"] for message in users if message["content"][:7] == "[Budget"]


def read(name: str) -> str:
    """Read a file."""
    return FILE


NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
TOOLS = [Tool("read", "Reads a file.", read, NAME)]


def opened(*limits: Limit) -> Ledger:
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("org", list(limits or (Limit("tokens", CAP, "day"),)))
    return ledger


async def run(ledger: "Any", model: Reader, **options: "Any") -> "Any":
    """Return what an operative on the account `org/reader` comes to."""
    agent = Operative(model, TOOLS, ledger=ledger, account="org/reader", **options)
    return await agent.run("What is in the files?")


async def loop(wrapper: "Any") -> "Any":
    """Return the answer of a plain loop round a wrapper."""
    tools = [tool.definition() for tool in TOOLS]
    messages: list[Any] = [{"role": "user", "content": "What is in the files?"}]
    for _ in range(30):
        answer = await wrapper.chat(messages, tools)
        if not answer.tool_calls:
            return answer
        messages.append({"role": "assistant", "content": answer.content})
        messages.append({"role": "tool", "tool_call_id": "1", "content": FILE})
    raise AssertionError("the loop has no end")


def check_account(ledger: "Any", account: str = "org") -> None:
    for row in ledger.balance(account):
        assert row.held == 0, row
        assert row.debt == 0, row


async def check_operative(ledger: "Any", counts: "Any", **options: "Any") -> None:
    """Check a run on an account with `CAP` tokens a day; `counts` is the ledger, not awaited."""
    model = Reader()
    result = await run(ledger, model, **options)
    assert result.text == ANSWER
    assert result.reason.axis == "tokens"
    assert result.reason.scope == "org"
    assert "of your org budget is used" in model.notices[0]
    assert "reserved for the answer" in model.notices[0]
    assert "This is your last answer" in model.notices[-1]
    assert model.offered[-1] is None
    assert len(model.sent) > 2
    check_account(counts)


async def check_wrapper(ledger: "Any", counts: "Any", **options: "Any") -> None:
    """Check a loop on an account with `CAP` tokens a day."""
    model = Reader()
    answer = await loop(BudgetWrapper(model, ledger=ledger, account="org/reader", **options))
    assert (answer.content, answer.cut_off_by) == (ANSWER, None)
    assert "of your org budget is used" in model.notices[0]
    assert "org has used" in model.notices[-1]
    assert "This is your last answer" in model.notices[-1]
    assert model.offered[-1] is None
    assert len(model.sent) > 2
    check_account(counts)


async def test_a_run_on_an_account_gets_notices_and_a_last_answer() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        ledger = opened()
        await check_operative(wrap(ledger), ledger)


async def test_a_wrapper_on_an_account_gives_notices_and_a_last_answer() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        ledger = opened()
        await check_wrapper(wrap(ledger), ledger)


async def test_agents_whose_calls_wait_get_notices_and_a_last_answer_too() -> None:
    for check in (check_operative, check_wrapper):
        ledger = opened()
        await check(ledger, ledger, wait=60)


async def test_several_runs_at_once_end_with_answers_each() -> None:
    for wait in (None, 0.05):
        ledger = opened(Limit("tokens", 40_000, "day"))
        models = [Reader() for _ in range(4)]
        runs = [run(ledger, model, max_tokens=500, wait=wait) for model in models]
        results: Any = await asyncio.gather(*runs)
        assert [result.text for result in results] == [ANSWER] * 4
        check_account(ledger)


async def test_a_final_call_is_not_taken_by_a_neighbour() -> None:
    def spend(model: Reader) -> None:
        if len(model.sent) == 2:
            [row] = ledger.balance("org")
            ledger.charge("org/neighbour", {"tokens": row.left})

    ledger, model = opened(), Reader(spend)
    result = await run(ledger, model, max_tokens=500)
    assert result.text == ANSWER
    assert len(model.sent) == 4 or model.offered[-1] is None
    check_account(ledger)


async def test_a_run_whose_final_call_does_not_fit_is_not_begun() -> None:
    for limit in (Limit("tokens", 600, "day"), Limit("calls", 1, "day")):
        ledger, model = opened(limit), Reader()
        result = await run(ledger, model)
        assert model.sent == []
        assert "not begun: a call and its final answer do not fit" in str(result.reason)
        assert result.reason.scope == "org"
        check_account(ledger)


async def test_a_run_that_keeps_nothing_holds_nothing_for_a_final_call() -> None:
    ledger, model = opened(Limit("calls", 1, "day")), Reader()
    result = await run(ledger, model, budget=Budget(last_call=None))
    assert len(model.sent) == 1
    assert result.reason.axis == "calls"
    check_account(ledger)


async def test_calls_of_an_account_are_counted_with_one_reserved() -> None:
    ledger, model = opened(Limit("calls", 6, "day")), Reader()
    result = await run(ledger, model)
    assert result.text == ANSWER
    told = "80% of your org budget is used (4 of 5 calls per day, and one reserved for the answer)"
    assert [text for text in model.notices if told in text]
    assert len(model.sent) == 6
    check_account(ledger)


async def test_money_of_an_account_ends_with_a_last_answer_too() -> None:
    ledger, model = opened(Limit("nano_usd", 12_000_000, "day")), Reader()
    result = await run(ledger, model, prices={"reader": Price(1, 1)}, max_tokens=500)
    assert result.text == ANSWER
    assert result.reason.axis == "nano_usd"
    assert "of your org budget is used ($0.0" in model.notices[0]
    check_account(ledger)


async def test_the_nearest_of_envelope_and_account_speaks_once() -> None:
    ledger, model = opened(Limit("calls", 100, "day")), Reader()
    await run(ledger, model, budget=Budget(max_turns=6))
    assert [text for text in model.notices if "org" in text] == []
    halves = [text for text in model.notices if "[Budget notice]" in text]
    assert len(halves) == 2


async def test_the_limit_nearest_to_its_end_counts_of_an_account_and_those_above() -> None:
    ledger, model = opened(Limit("calls", 100, "day")), Reader()
    ledger.set_limits("org/reader", [Limit("calls", 6, "hour"), Limit("tokens", 10**9)])
    await run(ledger, model)
    assert "of your org/reader budget is used (3 of 5 calls per hour" in model.notices[0]


async def test_a_wrappers_tracker_and_account_speak_once() -> None:
    ledger, model = opened(Limit("calls", 10, "day")), Reader()
    crossed: list[Any] = []
    wrapper = BudgetWrapper(
        model,
        TurnBudgetTracker(TurnBudgetConfig(20, None, (0.5,), tool_strip_threshold=0.7)),
        ledger=ledger,
        account="org",
        on_threshold_crossed=lambda **event: crossed.append(event),
    )
    assert (await loop(wrapper)).content == ANSWER
    [event] = crossed
    assert (event["scope"], event["threshold"]) == ("org", 0.5)
    assert (event["used"], event["cap"], event["unit"]) == (5, 10, "calls per day")
    assert len(model.sent) == 8
    assert "70% of your org budget is used (7 of 10 calls per day). Tools are" in model.notices[-1]


async def test_a_threshold_is_crossed_again_in_the_next_window() -> None:
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    ledger.set_limits("org", [Limit("calls", 10, "day")])
    model = Reader()
    wrapper = BudgetWrapper(model, ledger=ledger, account="org")
    hello = [{"role": "user", "content": "Hello!"}]
    for _ in range(2):
        for _ in range(10):
            await wrapper.chat(hello)
        clock.advance(86_400)
    told = [text[:19] for text in model.notices]
    assert told.count("[Budget notice] 50%") == 2, model.notices


async def test_the_balance_is_read_with_the_first_call_and_every_eighth() -> None:
    ledger = Failing(opened(Limit("tokens", 10**9, "day")))
    wrapper = BudgetWrapper(Reader(), ledger=ledger, account="org")
    for _ in range(17):
        await wrapper.chat([{"role": "user", "content": "Hello!"}])
    assert ledger.asked.count("balance") == 3


async def test_the_balance_is_read_earlier_where_many_others_use_the_account() -> None:
    def spend(model: Reader) -> None:
        if (ledger.balance("org")[0].left or 0) > 20_000:
            ledger.charge("org/neighbours", {"tokens": 19_000})

    ledger, model = opened(Limit("tokens", 400_000, "day")), Reader(spend)
    wrapper = BudgetWrapper(model, ledger=ledger, account="org", max_tokens=100)
    assert (await loop(wrapper)).content == ANSWER
    assert "This is your last answer" in model.notices[-1]
    check_account(ledger)


async def test_a_ledger_without_a_balance_now_is_no_reason_to_refuse_a_call() -> None:
    async def fail(balance: "Any", path: str) -> "Any":
        raise OSError(5)

    ledger = opened()
    model = Reader()
    assert (await run(Awaited(ledger, balance=fail), model)).text == ANSWER
    check_account(ledger)
    blind: Any = Awaited(opened(), balance=fail)
    wrapper = BudgetWrapper(Reader(), ledger=blind, account="org")
    assert (await loop(wrapper)).cut_off_by == "org"  # nobody could know that it was the last
    assert wrapper.ledger_error is None


async def test_a_run_that_is_cancelled_gives_its_reserve_back() -> None:
    def cancel(model: Reader) -> None:
        begun.cancel("Enough.")

    ledger = opened()
    agent = Operative(Reader(cancel), TOOLS, ledger=ledger, account="org")
    begun = agent.begin("?")
    await begun.finish()
    [row] = ledger.balance("org")
    assert row.held < 4_300  # that of the call, whose outcome is unknown

"""Agents on accounts of a ledger: notices, fewer tools, and a final call that nobody can take."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.exoclaw import ExoclawBudget
from budget_core.agent.operative import Operative
from budget_core.agent.tool import Tool
from budget_core.config import TurnBudgetConfig
from budget_core.errors import ProviderError
from budget_core.ledger.errors import LedgerUnavailableError, UnknownHoldError
from budget_core.ledger.limit import Limit
from budget_core.ledger.llm_account import IN_PROCESS
from budget_core.ledger.memory import Ledger
from budget_core.ledger.run_account import RunAccount
from budget_core.prices import Price
from budget_core.provider import ChatResponse, ToolCall
from budget_core.tracker import TurnBudgetTracker
from budget_core.usage_estimate import estimate_tokens
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import Awaited, Failing, cancel
from tests_micro.script import SHOUT, USAGE, Script, says
from tests_micro.support import SLOW, FakeClock, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 1_800_000_000
FILE = "a line of a file, " * 30
CAP = 9_000
ANSWER = "The files are long."
FAILURES = ((False, 1), (False, 3), (True, 1), (True, 3))  # after it was applied; how often


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


def grab(ledger: Ledger) -> None:
    """Have a neighbour use all that is left."""
    [row] = ledger.balance("org")
    ledger.charge("org/neighbour", {"tokens": row.left})


async def crowded(ledger: "Any", model: Reader, counts: Ledger, at: str, **options: "Any") -> "Any":
    """Return what a run comes to whose neighbour uses all that is left at an event."""

    def grab_at(kind: str, **fields: "Any") -> None:
        if kind == at:
            grab(counts)

    result = await run(ledger, model, max_tokens=500, on_event=grab_at, **options)
    [row] = counts.balance("org")
    assert row.held == 0, row
    return result


async def test_the_reserve_is_held_between_calls() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        for event in ("response", "tool_started", "tool_finished", "turn_completed"):
            ledger, model = opened(), Reader()
            result = await crowded(wrap(ledger), model, ledger, event)
            assert (result.text, len(model.sent)) == (ANSWER, 2), event
            check_account(ledger)


async def test_the_reserve_is_held_after_a_call_of_unknown_outcome() -> None:
    def fail(model: Reader) -> None:
        if len(model.sent) == 2:
            raise ProviderError(500, "down")

    for wrap in (lambda ledger: ledger, Awaited):
        ledger, model = opened(), Reader(fail)
        options = {"fallback_model": "small"}
        result = await crowded(wrap(ledger), model, ledger, "response_failed", **options)
        assert (result.text, model.models) == (ANSWER, ["reader", "reader", "small"])
        check_account(ledger)


async def test_the_reserve_is_held_while_an_answer_is_reflected_on() -> None:
    def reflect(text: str, budget: "Any") -> str:
        grab(ledger)
        return "Look again."

    for wrap in (lambda ledger: ledger, Awaited):
        ledger, model = opened(), Script(says("Long.", USAGE), says(ANSWER, USAGE))
        result = await run(wrap(ledger), model, max_tokens=500, reflect=reflect)  # type: ignore[arg-type]
        assert (result.text, len(model.sent)) == (ANSWER, 2)
        check_account(ledger)


async def test_a_run_without_reflection_keeps_nothing_after_its_answer() -> None:
    ledger = Failing(opened())
    await run(ledger, Script(says(ANSWER, USAGE)))  # type: ignore[arg-type]
    assert ledger.asked == ["balance", "reserve", "commit"]


async def test_the_reserve_is_held_where_a_call_used_more_than_its_hold() -> None:
    class Greedy(Reader):
        def _read(self, request: "Any") -> ChatResponse:
            answer = super()._read(request)
            if len(self.requests) == 1:
                answer.usage = {
                    "prompt_tokens": CAP,
                    "completion_tokens": 5,
                    "total_tokens": CAP + 5,
                }
            return answer

    for wrap in (lambda ledger: ledger, Awaited):
        ledger, model = opened(), Greedy()
        result = await crowded(wrap(ledger), model, ledger, "response")
        assert (result.text, len(model.sent)) == (ANSWER, 2)
        [row] = ledger.balance("org")
        assert row.spent > CAP + 5  # all of it is recorded, past the limit


async def test_the_reserve_is_held_where_its_renewal_fails() -> None:
    for applied_first in (False, True):
        for awaited in (False, True):
            ledger = opened()
            failing = Failing(ledger)
            failing.failing, failing.after = {"renew": 1}, applied_first
            model = Reader()
            tried: Any = Awaited(failing) if awaited else failing  # type: ignore[arg-type]
            result = await crowded(tried, model, ledger, "response")
            assert (result.text, len(model.sent)) == (ANSWER, 2), (applied_first, awaited)
            check_account(ledger)


class Breaking(Reader):
    """A reader at whose fourth call a ledger begins to fail, as often as said."""

    def __init__(self, ledger: Failing, fails: "dict[str, int]", error: "Any" = None) -> None:
        super().__init__()
        self.ledger, self.fails, self.error = ledger, fails, error
        self.used: list[int] = []

    def _read(self, request: "Any") -> ChatResponse:
        if len(self.requests) == 4:
            self.ledger.failing = self.fails
            if self.error is not None:
                raise self.error
        answer = super()._read(request)
        self.used.append(answer.usage["total_tokens"])
        return answer


async def check_breaking(fails: "dict[str, int]", error: "Any" = None, **options: "Any") -> None:
    """Check that a run gets its final answer, and that its ledger counts what it used, in the end.

    The ledger fails before or after it did its work.
    """
    for applied_first in (False, True):
        for awaited in (False, True):
            ledger = opened(Limit("tokens", 100_000, "day"), Limit("calls", 100, "day"))
            failing = Failing(ledger)
            failing.after = applied_first
            model = Breaking(failing, dict(fails), error)
            tried: Any = Awaited(failing) if awaited else failing  # type: ignore[arg-type]
            result = await run(tried, model, max_tokens=500, **options)
            where = (applied_first, awaited, result)
            assert result.text == ANSWER, where
            failing.failing = {}
            await result.budget.ledger.flush()
            IN_PROCESS.pop(tried)
            rows = {row.axis: (row.spent, row.held) for row in ledger.balance("org")}
            assert rows == {"calls": (len(model.used), 0), "tokens": (sum(model.used), 0)}, where


async def test_a_final_call_is_counted_where_the_answer_to_a_renewal_was_lost() -> None:
    for times in (1, 2):
        error = ProviderError(429, "not now")
        await check_breaking({"renew": times}, error, fallback_model="small")


async def test_a_renewal_whose_answer_was_lost_is_undone_though_it_fails_again() -> None:
    def lose(renew: "Any", *arguments: "Any") -> "Any":
        number = ledger.asked.count("renew")
        if number != 2:
            taken = renew(*arguments)
        if number < 3:
            raise LedgerUnavailableError("lost", applied=None if number == 1 else False)
        return taken

    counts = opened()
    ledger = Failing(counts, renew=lose)
    result = await run(ledger, Reader(), max_tokens=500)
    row = await flushed(ledger, counts)
    assert (row.spent, row.held) == (result.usage["tokens"], 0)


async def test_a_final_call_within_the_reserve_needs_no_ledger() -> None:
    operations = ("balance", "reserve", "renew", "commit", "release", "charge")
    for times in (2, 99):
        fails = dict.fromkeys(operations, times)
        await check_breaking(fails, budget=Budget(max_turns=5))
        await check_breaking(fails, ProviderError(429, "not now"), fallback_model="small")


async def test_a_call_is_given_back_if_the_reserve_cannot_be_taken_after_it() -> None:
    def fail(method: "Any", path: str, amounts: "Any", *more: "Any") -> "Any":
        if ledger.asked.count("reserve") == 3:
            raise LedgerUnavailableError("it is down", applied=False)
        return method(path, amounts, *more)

    beneath = opened()
    neighbour = beneath.reserve("org/neighbour", {"tokens": CAP - 900})
    ledger, model = Failing(beneath, reserve=fail), Reader()
    result = await run(ledger, model, max_tokens=500, wait=5)
    assert (result.reason.kind, model.sent) == ("failed", [])
    beneath.release(neighbour)
    assert (await flushed(ledger, beneath)).held == 0


def forgetting(number: int) -> "Any":
    """Return a `renew` whose ledger has lost the hold, the one time of that number."""
    asked: list[Any] = []

    def renew(method: "Any", hold: "Any", *more: "Any") -> "Any":
        asked.append(hold)
        if len(asked) == number:
            raise UnknownHoldError(hold.path, hold.id)
        return method(hold, *more)

    return renew


async def test_a_reserve_that_its_ledger_has_lost_is_taken_anew() -> None:
    for number in (1, 2):  # as the first call is settled, and as the second is admitted
        ledger = opened()
        result = await run(Failing(ledger, renew=forgetting(number)), Reader(), max_tokens=500)
        assert result.text == ANSWER, number
        [row] = ledger.balance("org")
        assert row.spent == result.usage["tokens"], number


async def test_three_calls_of_a_run_take_six_operations_beside_the_balance() -> None:
    tool = ChatResponse("", [ToolCall("1", "read", {"name": "a"})], "tool_calls", USAGE)
    ledger = Failing(opened(Limit("tokens", 10**9, "day")))
    model: Any = Script(tool, tool, says(ANSWER, USAGE))
    await run(ledger, model)
    assert ledger.asked == ["balance", "reserve"] + ["renew"] * 4 + ["commit"]


class FailingAt:
    """An awaited ledger some of whose operations fail, from that number on.

    They fail `after` they were applied, or before.
    """

    def __init__(self, beneath: Ledger, number: int, after: bool, times: int = 1) -> None:
        self.beneath = beneath
        self.number = number
        self.after = after
        self.times = times

    def __getattr__(self, name: str) -> "Any":
        method = getattr(self.beneath, name)

        async def ask(*arguments: "Any") -> "Any":
            await asyncio.sleep(0)
            self.number -= 1
            if not -self.times < self.number <= 0:
                return method(*arguments)
            if self.after:
                method(*arguments)
            raise LedgerUnavailableError("lost", None, None if self.after else False)

        return ask


async def flushed(ledger: "Any", counts: Ledger) -> "Any":
    """Return what stands on the account once the ledger has all that it is owed."""
    await RunAccount(ledger, "org/reader").flush()
    IN_PROCESS.pop(ledger)  # on MicroPython it would be kept, and these tests make many
    [row] = counts.balance("org")
    return row


async def test_whichever_operation_fails_all_is_recorded_once_and_nothing_is_left() -> None:
    for after, times in FAILURES[3:] if SLOW else FAILURES:
        number = 0
        while True:
            number += 1
            counts = opened(Limit("tokens", 5_000, "day"))
            ledger = FailingAt(counts, number, after, times)
            result = await run(ledger, Reader(), max_tokens=500)
            over, ledger.times = ledger.number > 0, 0
            row = await flushed(ledger, counts)
            assert (row.spent, row.held) == (result.usage["tokens"], 0), (after, times, number)
            if over:  # the run has no such operation
                assert result.text == ANSWER
                break
        assert number > 10


async def test_at_whichever_step_a_run_is_cancelled_nothing_is_left() -> None:
    step, is_over = 0, False
    while not is_over:
        step += 20 if SLOW else 3
        counts = opened(Limit("tokens", 5_000, "day"))
        ledger = FailingAt(counts, 0, False, 0)
        task = asyncio.create_task(run(ledger, Reader(), max_tokens=500))
        for _ in range(step):
            await asyncio.sleep(0)
        is_over = task.done()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        for _ in range(20):
            await asyncio.sleep(0)
        assert (await flushed(ledger, counts)).held == 0, step
    assert step > 30


async def test_a_final_call_is_counted_where_an_admission_was_cut_by_the_deadline() -> None:
    async def hang(renew: "Any", *arguments: "Any") -> "Any":
        renewed.append(renew(*arguments))
        if len(renewed) == 4:  # as the third call is admitted
            fake.advance(95_000)
            envelope.changed()
            await asyncio.Event().wait()
        return renewed[-1]

    renewed: list[Any] = []
    (fake, clock), counts = stopped_clock(), opened()
    envelope = Envelope.open(Budget(timeout=100), clock)
    ledger: Any = Awaited(counts, renew=hang)
    texts = [FILE * 3, "A short file."]  # so the final call needs less than is held for it
    tool = Tool("read", "Reads a file.", lambda name: texts.pop(0), NAME)
    options = {"ledger": ledger, "account": "org/reader", "max_tokens": 500}
    result = await Operative(Reader(), [tool], envelope, **options).run("?")
    assert (result.reason and result.reason.kind, result.text) == ("timeout", ANSWER)
    row = await flushed(ledger, counts)
    assert (row.spent, row.held) == (result.usage["tokens"], 0)


async def test_a_turn_that_is_left_while_its_call_is_settled_keeps_nothing() -> None:
    async def leave(renew: "Any", *arguments: "Any") -> "Any":
        taken = renew(*arguments)
        await agent.should_continue(0, [])  # a new turn begins
        return taken

    counts = opened()
    ledger: Any = Awaited(counts, renew=leave)
    agent = ExoclawBudget(Reader(), Budget(), ledger=ledger, account="org/reader")
    await agent.should_continue(0, [])
    await agent.chat([{"role": "user", "content": "?"}], [tool.definition() for tool in TOOLS])
    assert (await flushed(ledger, counts)).held == 0


async def test_a_turn_that_is_cancelled_while_its_call_is_settled_is_recorded() -> None:
    asked = asyncio.Event()

    async def hang(renew: "Any", *arguments: "Any") -> None:
        asked.set()
        await asyncio.Event().wait()

    counts, model = opened(), Script(SHOUT)
    ledger: Any = Awaited(counts, renew=hang)
    agent = ExoclawBudget(model, Budget(), ledger=ledger, account="org/reader")
    await agent.should_continue(0, [])
    tools = [tool.definition() for tool in TOOLS]
    task = asyncio.create_task(agent.chat([{"role": "user", "content": "?"}], tools))
    await asked.wait()
    await cancel(task)
    row = await flushed(ledger, counts)
    assert (row.spent, row.held) == (USAGE["total_tokens"], 0)

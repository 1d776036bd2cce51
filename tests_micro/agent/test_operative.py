"""How a run goes from a question to its answer, or to the reason why it was stopped."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_call import Request
from budget_core.agent.llm_gate import Gate
from budget_core.agent.middleware import Middleware
from budget_core.agent.no_progress import NoProgress
from budget_core.agent.operative import Operative
from budget_core.agent.run import RunStoppedError
from budget_core.agent.stop import StoppedError, StopReason, StopRequested
from budget_core.agent.stop_condition import MaxIterations, Timeout
from budget_core.agent.tool import Tool, ToolOutput
from budget_core.config import TurnBudgetConfig
from budget_core.errors import ProviderError
from budget_core.prices import Price
from budget_core.provider import ChatResponse
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.script import (
    QUESTION,
    SHOUT,
    TOOLS,
    Played,
    Script,
    calls,
    check_conversation,
    play,
    prepare,
    says,
)
from tests_micro.support import raises, raises_async, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DIGEST = "What the tools returned:\n- shout: HI"
PRICES = {"script": Price(10, 100), "cheap": Price(1, 1)}


async def hang(asked: "Any" = None) -> None:
    await asyncio.Event().wait()


async def test_an_answer_without_calls_completes_a_run() -> None:
    played = await play(says("Hello."), session_id="s1")
    result = played.result
    assert (result.text, result.reason, result.turns) == ("Hello.", None, 1)
    assert result.completed
    assert result.check() is result
    assert result.messages == [QUESTION, {"role": "assistant", "content": "Hello."}]
    assert result.state.final_text == "Hello."
    assert await played.run.finish() is result
    assert len(played.script.sent) == 1


async def test_a_run_keeps_a_state_only_under_a_session_id() -> None:
    for session_id in (None, "s1"):
        tool = Tool("ask", "", lambda: {"usage": {"total_tokens": 5}})
        answers = calls(("ask", {})), says("Done.")
        played = await play(*answers, tools=[tool], session_id=session_id)
        assert (played.result.state is None) == (session_id is None)
        assert [one["status"] for one in played.result.tool_results] == ["completed"]
        assert played.result.usage["tool_calls"] == 1


async def test_a_run_that_ends_without_text_leaves_a_conversation_that_can_be_sent() -> None:
    for content in (None, ""):
        result = (await play(says(content))).result
        assert (result.text, result.completed) == ("", True)
        assert result.messages[-1] == {"role": "assistant", "content": ""}


async def test_the_model_is_told_what_its_call_came_to_and_asked_again() -> None:
    played = await play(SHOUT, says("Done."))
    function = {"name": "shout", "arguments": '{"text": "hi"}'}
    asked = [{"id": "c0", "type": "function", "function": function}]
    assert played.script.sent == [
        [QUESTION],
        [
            QUESTION,
            {"role": "assistant", "content": None, "tool_calls": asked},
            {"role": "tool", "tool_call_id": "c0", "content": "HI"},
        ],
    ]
    assert (played.result.text, played.result.turns) == ("Done.", 2)


async def test_text_beside_a_call_is_kept() -> None:
    first = calls(("shout", {}), text="Let me see.")
    played = await play(first, says("Done."))
    assert played.result.messages[1]["content"] == "Let me see."
    played = await play(first, budget=Budget(max_turns=1))
    assert played.result.text == "Let me see."


async def test_a_system_prompt_begins_a_conversation_that_has_none() -> None:
    prompt = {"role": "system", "content": "Be kind."}
    for messages, first in (
        ("What now?", prompt),
        ([QUESTION], prompt),
        ([{"role": "system", "content": "Be quick."}, QUESTION], {"content": "Be quick."}),
    ):
        played = await play(says("Hello."), messages=messages, system_prompt="Be kind.")
        assert played.script.sent[0][0]["content"] == first["content"]
        assert len(played.script.sent[0]) == 2


async def test_the_callers_messages_are_left_alone() -> None:
    messages = [dict(QUESTION)]
    result = (await play(SHOUT, says("Done."), messages=messages)).result
    assert messages == [QUESTION]
    assert len(result.messages) == 4
    assert (await play(says("Hello."), messages=(QUESTION,))).result.text == "Hello."


async def test_a_result_can_begin_the_next_run() -> None:
    first = (await play(SHOUT, says("Done."))).result.messages
    second = await play(says("Hello."), messages=first + [QUESTION])
    assert second.script.sent == [first + [QUESTION]]


async def test_a_conversation_may_end_with_the_models_own_words() -> None:
    said = {"role": "assistant", "content": "Let me see."}
    played = await play(says("Hello."), messages=[QUESTION, said], stop_when=NoProgress())
    assert (played.result.text, played.result.completed) == ("Hello.", True)


async def test_an_operative_runs_more_than_once_and_each_run_has_the_whole_budget() -> None:
    operative = Operative(Script(SHOUT, SHOUT, says("Done.")), TOOLS, Budget(max_turns=2))
    first = await operative.run("What now?")
    second = await operative.run("What now?", Budget(max_turns=1))
    assert (first.turns, second.turns, second.completed) == (2, 1, True)
    assert raises(RunStoppedError, first.check).result is first
    assert "turn limit" in str(raises(RunStoppedError, first.check))


async def test_a_run_at_its_turns_makes_the_last_of_them_without_tools() -> None:
    answers = SHOUT, SHOUT, says("So far: HI.")
    played = await play(*answers, budget=Budget(max_turns=3), session_id="s1")
    assert played.figures == ("turn_limit", "turns", 2, 3, 1, "run")
    assert played.script.offered[-1] is None
    assert played.script.sent[2][-1]["content"].startswith("[Budget exhausted] turn limit: 2 of 2")
    assert not played.result.state.timed_out
    assert played.result.text == "So far: HI."
    assert played.result.usage["turns"] == played.result.turns == 3
    assert played.result.messages[-1] == {"role": "assistant", "content": "So far: HI."}


async def test_a_run_that_keeps_nothing_ends_with_what_its_tools_returned() -> None:
    for most in (0, 1, 3):
        played = await play(SHOUT, budget=Budget(max_turns=most, last_call=None))
        assert played.figures == ("turn_limit", "turns", most, most, 0, "run")
        assert len(played.script.sent) == most
        assert played.result.text == (DIGEST + "\n- shout: HI" * (most - 1) if most else "")


async def test_the_only_turn_there_is_has_its_tools() -> None:
    played = await play(SHOUT, budget=Budget(max_turns=1))
    assert played.figures == ("turn_limit", "turns", 1, 1, 0, "run")
    assert (played.statuses, played.result.text) == (["completed"], DIGEST)


async def test_tokens_bound_a_run_and_each_of_its_completions() -> None:
    budget = Budget(max_tokens=250, max_tokens_per_turn=120)
    played = await play(SHOUT, budget=budget)
    # 225 may be used before the final call, which gets the rest
    assert played.script.limits == [120, 120, 25]
    assert played.figures == ("token_budget", "tokens", 300, 250, 25, "run")
    assert played.result.usage["tokens"] == 300


async def test_the_last_call_has_the_tokens_that_were_kept() -> None:
    budget = Budget(max_tokens=250, last_call=0.4)
    played = await play(SHOUT, SHOUT, says("Enough."), budget=budget)
    assert played.script.limits == [150, 50, 50]
    assert played.figures == ("token_budget", "tokens", 200, 250, 100, "run")
    assert played.result.text == "Enough."
    assert played.script.offered == [["shout", "whisper", "fail"]] * 2 + [None]


async def test_tokens_that_are_overspent_leave_no_last_call() -> None:
    played = await play(SHOUT, budget=Budget(max_tokens=90))
    assert played.figures == ("token_budget", "tokens", 100, 90, 9, "run")
    assert (len(played.script.sent), played.result.text) == (1, DIGEST)


async def test_an_answer_cut_off_at_its_limit_ends_a_run_for_want_of_tokens() -> None:
    cut = says("Once upon", finish_reason="length")
    played = await play(cut, budget=Budget(max_tokens_per_turn=10))
    assert played.figures == ("token_budget", "completion tokens", 10, 10, 0, "run")
    assert "cut off" in str(played.reason)
    assert (played.result.text, len(played.script.sent)) == ("Once upon", 1)
    assert (await play(cut)).figures == ("token_budget", "completion tokens", None, None, 0, "run")


async def test_time_that_is_over_before_a_call_leaves_the_last_one() -> None:
    fake, clock = stopped_clock()
    slow = Tool("slow", "Slow.", lambda: fake.advance(9_200))
    played = await play(
        calls(("slow", {})),
        says("In time."),
        tools=[slow],
        clock=clock,
        budget=Budget(timeout=10),
        session_id="s1",
    )
    assert played.figures == ("timeout", "ms", 9_200, 10_000, 1_000, "run")
    assert (played.result.text, played.result.state.timed_out) == ("In time.", True)
    assert played.script.offered == [["slow"], None]


async def test_time_that_is_over_with_what_was_kept_leaves_none() -> None:
    fake, clock = stopped_clock()
    slow = Tool("slow", "Slow.", lambda: fake.advance(10_000))
    played = await play(
        calls(("slow", {})), says("Late."), tools=[slow], clock=clock, budget=Budget(timeout=10)
    )
    assert played.figures == ("timeout", "ms", 10_000, 10_000, 1_000, "run")
    assert (played.result.text, len(played.script.sent)) == (
        "What the tools returned:\n- slow: null",
        1,
    )


async def late(advance: int, *answers: "Any", **more: "Any") -> "Played":
    """Play a run of ten seconds whose first call hangs until that many milliseconds have passed."""
    fake, clock = stopped_clock()

    async def wait(asked: "Any") -> None:
        fake.advance(advance)
        played.run.budget.changed()
        if "on_delta" in asked:
            await asked["on_delta"]("Once")
        await hang()

    played = prepare(wait, *answers, clock=clock, budget=Budget(timeout=10, **more), stream=True)
    await played.run.finish()
    check_conversation(played.result.messages)
    return played


async def test_a_call_in_flight_is_cancelled_when_its_time_is_over() -> None:
    played = await late(9_000, says("In time."))
    assert played.figures == ("timeout", "ms", 9_000, 10_000, 1_000, "run")
    assert played.result.text == "In time."
    assert played.result.usage["estimated"] == 1
    assert played.script.sent[1][1] == {"role": "assistant", "content": "Once"}
    assert played.result.messages[1] == {"role": "assistant", "content": "Once\n\nIn time."}


async def test_the_reason_of_a_call_cut_off_is_time_also_where_it_was_the_last_turn() -> None:
    assert (await late(9_000, says("In time."), max_turns=2)).reason.kind == StopReason.TIMEOUT


async def test_what_came_of_a_call_that_was_cut_off_is_kept() -> None:
    for last_call in (None, 0.1):
        played = await late(
            10_000 - 1_000 * (last_call is not None),
            ProviderError(500, "Oops."),
            last_call=last_call,
        )
        assert len(played.script.sent) == 1 + (last_call is not None)
        assert played.reason.kind == StopReason.TIMEOUT
        assert played.result.text == "Once"
        assert played.result.messages[-1] == {"role": "assistant", "content": "Once"}


async def test_a_tool_stops_a_run_with_its_text() -> None:
    for content, text in (("All 3 files.", "All 3 files."), ("", "Task complete")):
        tool = Tool("stop", "", lambda content=content: ToolOutput.stop("Task complete", content))
        played = await play(calls(("stop", {}), ("stop", {})), says("No."), tools=[tool])
        assert played.figures == ("explicit_stop", "", None, None, 0, "run")
        assert (played.reason.reason, played.result.text) == ("Task complete", text)
        assert played.statuses == ["completed", "denied"]
        assert played.told == [text, "Error: not called, the run has stopped"]
        assert len(played.script.sent) == 1


async def test_a_tool_that_stops_without_a_text_leaves_what_the_model_said() -> None:
    tool = Tool("stop", "", lambda: ToolOutput.stop("Task complete"))
    played = await play(calls(("stop", {}), text="Let me see."), tools=[tool])
    assert played.result.text == "Let me see."


async def test_a_gate_needs_nobody_who_listens() -> None:
    gate = Gate(Script(says("Hi.")), Envelope.open(Budget()))
    assert (await gate.ask(Request([QUESTION]))).content == "Hi."
    assert (gate.reason, gate.turn, gate.partial_text) == (None, 1, "")
    gate = Gate(Script(says("No.")), Envelope.open(Budget(max_turns=0)))
    error = await raises_async(StoppedError, gate.ask, Request([QUESTION]))
    assert str(error) == str(gate.reason) == "turn limit: 0 of 0 turns"


class Stopper(Middleware):
    """Raises at one of the four points."""

    def __init__(self, point: str, error: "Any") -> None:
        def stop(*arguments: object) -> None:
            raise error

        setattr(self, point, stop)


POINTS: "tuple[tuple[str, int, list[str], str], ...]" = (
    ("before_llm", 0, [], ""),
    ("after_llm", 1, [], "Let me see."),
    ("before_tool", 1, ["denied", "denied"], "Let me see."),
    ("after_tool", 1, ["completed", "denied"], "Let me see."),
)


async def test_middleware_stops_a_run_at_any_point() -> None:
    both = calls(("shout", {"text": "hi"}), ("shout", {}), text="Let me see.")
    for point, sent, statuses, text in POINTS:
        stopper = Stopper(point, StopRequested("Seen enough."))
        played = await play(both, says("No."), middleware=[stopper])
        assert played.reason.kind == StopReason.EXPLICIT_STOP, point
        assert played.reason.reason == "Seen enough."
        assert (len(played.script.sent), played.statuses) == (sent, statuses), point
        assert played.result.text == text


async def test_the_callers_own_code_that_fails_stops_a_run_and_loses_nothing() -> None:
    both = calls(("shout", {"text": "hi"}), ("shout", {}), text="Let me see.")
    for point, sent, statuses, text in POINTS:
        trouble = ValueError("Oops.")
        played = await play(both, says("No."), middleware=[Stopper(point, trouble)])
        assert played.reason.kind == StopReason.FAILED
        assert (played.reason.error, played.reason.reason) == (trouble, "ValueError: Oops.")
        assert (len(played.script.sent), played.statuses) == (sent, statuses), point
        assert played.result.text == text


async def test_any_other_failure_of_the_callers_own_code_is_a_reason_too() -> None:
    class Broken:
        def get(self, *arguments: object) -> None:
            raise ValueError("Oops.")

        def reset(self) -> None:
            pass

        check = __call__ = get

    for name in ("prices", "count_tokens", "stop_when"):
        played = await play(SHOUT, says("No."), **{name: Broken()})
        assert played.reason.kind == StopReason.FAILED, name
        assert played.reason.error is not None


async def test_more_tool_calls_than_allowed_end_a_run_after_its_last_call() -> None:
    three = calls(("shout", {"text": "a"}), ("shout", {"text": "b"}), ("shout", {"text": "c"}))
    played = await play(three, says("A and B."), budget=Budget(max_tool_calls=2))
    assert played.figures == ("tool_call_limit", "tool calls", 3, 2, 0, "run")
    assert played.statuses == ["completed", "completed", "denied"]
    assert played.result.usage["tool_calls"] == 2
    assert (played.result.text, played.script.offered[-1]) == ("A and B.", None)


async def test_all_tool_calls_used_take_the_tools_away_and_let_the_model_answer() -> None:
    played = await play(SHOUT, says("HI."), budget=Budget(max_tool_calls=1))
    assert played.result.completed
    assert played.script.offered == [["shout", "whisper", "fail"], None]


async def test_a_model_that_insists_on_tools_that_are_used_up_is_stopped() -> None:
    played = await play(SHOUT, SHOUT, says("HI."), budget=Budget(max_tool_calls=1))
    assert played.figures == ("tool_call_limit", "tool calls", 2, 1, 0, "run")
    assert played.statuses == ["completed", "denied"]
    assert played.told[1] == "Error: no call of shout is left; go on without it."


async def test_a_limit_of_the_budget_is_the_reason_before_a_condition_of_the_callers() -> None:
    played = await play(says("No."), budget=Budget(max_turns=0), stop_when=Timeout(0))
    assert played.reason.kind == StopReason.TURN_LIMIT


async def test_money_bounds_a_run_and_its_completions() -> None:
    # a call is 90 * 10_000 + 10 * 100_000 = 1_900_000 nano-USD
    budget = Budget(max_nano_usd=4_000_000)
    played = await play(SHOUT, SHOUT, says("Enough."), budget=budget, prices=PRICES)
    assert played.script.limits == [36, 17, 2]
    assert played.figures == ("cost_limit", "nano_usd", 3_800_000, 4_000_000, 400_000, "run")
    assert played.result.usage["nano_usd"] == 5_700_000


async def test_the_fallback_model_makes_the_calls_that_the_first_is_too_dear_for() -> None:
    budget = Budget(max_nano_usd=2_150_000)
    played = await play(
        SHOUT, SHOUT, says("Done."), budget=budget, prices=PRICES, fallback_model="cheap"
    )
    assert played.script.models == ["script", "cheap", "cheap"]
    assert played.script.offered[-1] is None
    assert played.result.usage["nano_usd"] == 2_100_000


async def test_where_money_is_limited_a_model_without_a_price_makes_no_call() -> None:
    played = await play(says("No."), budget=Budget(max_nano_usd=5), prices={})
    assert played.figures == ("cost_limit", "nano_usd", 0, 5, 0, "run")
    assert played.reason.reason == "no price is known for script"
    assert played.script.sent == []


async def test_calls_without_a_price_are_seen_where_money_is_counted() -> None:
    assert (await play(says("Yes."), prices={})).result.usage["unpriced"] == 1
    assert (await play(says("Yes."))).result.usage["unpriced"] == 0
    refused = await play(ProviderError(429, "Slow down."), prices={})
    assert refused.result.usage["unpriced"] == 0


async def test_a_prompt_that_does_not_fit_the_tokens_makes_no_call() -> None:
    played = await play(
        says("No."), budget=Budget(max_tokens=50), count_tokens=lambda messages, tools: 50
    )
    assert played.figures == ("token_budget", "tokens", 0, 50, 5, "run")
    assert played.reason.reason == "a prompt of 50 tokens leaves no room for an answer"
    played = await play(
        says("Yes."), budget=Budget(max_tokens=50), count_tokens=lambda messages, tools: 40
    )
    assert (played.reason.kind, played.script.limits, played.script.offered) == (
        "token_budget",
        [10],
        [None],
    ), "there is room for one call only, and so it is the last"
    assert (
        played.reason.reason
        == "a prompt of 40 tokens leaves no room for an answer and a final call"
    )


async def test_a_prompt_that_is_counted_leaves_room_for_itself_in_the_last_call() -> None:
    def count(messages: "Any", tools: "Any") -> int:
        return 200 * len([m for m in messages if m["role"] == "assistant"]) + 100

    budget = Budget(max_tokens=1_000, max_turns=5)
    again = calls(("shout", {"text": "hi"}))
    again.usage = {"prompt_tokens": 100, "completion_tokens": 200, "total_tokens": 300}
    played = await play(again, says("So far."), budget=budget, count_tokens=count, tools=TOOLS)
    assert played.script.limits == [350, 400]
    assert (played.result.text, played.reason.kind) == ("So far.", "token_budget")


async def test_a_run_that_goes_round_in_circles_is_stopped() -> None:
    again = (SHOUT, calls(("whisper", {"text": "A"}))) * 2
    played = await play(*again, says("I am stuck."), stop_when=NoProgress(2))
    assert played.figures == ("no_progress", "", None, None, 0, "run")
    assert played.result.turns == 5
    assert (played.result.text, played.script.offered[-1]) == ("I am stuck.", None)
    count = iter(range(9))
    counts = Tool("shout", "", lambda text: str(next(count)))
    played = await play(*[SHOUT] * 6, says("Done."), stop_when=NoProgress(2), tools=[counts])
    assert played.result.completed
    same = Tool("shout", "", lambda text: "same")
    different = [calls(("shout", {"text": str(n)})) for n in range(6)]
    played = await play(*different, says("Done."), stop_when=NoProgress(2), tools=[same])
    assert played.result.completed


async def test_a_condition_of_the_callers_stops_a_run_and_is_reset_before() -> None:
    class Third(MaxIterations):
        asked = 9

        def reset(self) -> None:
            self.asked = 0

        def check(self, seen: "Any") -> "Any":
            self.asked += 1
            return StopReason("bored", "Boring.") if self.asked > 2 else None

    played = await play(SHOUT, stop_when=Third(1))
    assert (played.reason.kind, played.result.turns) == ("bored", 3)


async def cancelled(ended: "Any") -> Played:
    """Play a run that is stopped by `ended(run)` while its second call is in flight."""

    async def wait(asked: "Any") -> None:
        ended(played.run)
        await hang()

    played = prepare(SHOUT, wait)
    await played.run.finish()
    check_conversation(played.result.messages)
    assert played.run.budget.tokens.held == 0
    return played


async def test_a_run_can_be_cancelled_from_outside() -> None:
    played = await cancelled(lambda run: run.cancel("Changed my mind."))
    assert (played.reason.kind, played.reason.reason) == ("cancelled", "Changed my mind.")
    assert (played.result.text, played.result.turns) == (DIGEST, 2)
    played = await cancelled(lambda run: run.budget.stop("Done."))
    assert (played.reason.kind, played.reason.reason) == ("explicit_stop", "Done.")


async def test_a_run_whose_task_is_cancelled_has_its_result_all_the_same() -> None:
    started = asyncio.Event()

    async def wait(asked: "Any") -> None:
        await asked["on_delta"]("Once")
        started.set()
        await hang()

    played = prepare(SHOUT, wait, stream=True)
    task = asyncio.create_task(played.run.finish())
    await started.wait()
    task.cancel()
    try:
        await task
        raise AssertionError("it was not cancelled")
    except asyncio.CancelledError:
        pass
    assert played.figures == ("cancelled", "", None, None, 0, "run")
    assert (played.result.text, played.statuses) == ("Once", ["completed"])
    assert played.diary.kinds[-1] == "stopped"
    check_conversation(played.result.messages)


async def test_an_answer_that_comes_with_a_cancellation_is_kept_and_counted() -> None:
    def answer(asked: "Any") -> "Any":
        task.cancel()
        return says("In time.")

    played = prepare(answer)
    task = asyncio.create_task(played.run.finish())
    try:
        await task
    except asyncio.CancelledError:
        pass
    assert (played.reason.kind, played.result.text) == ("cancelled", "In time.")
    assert (played.result.usage["tokens"], played.result.usage["estimated"]) == (100, 0)


async def test_a_provider_that_fails_ends_a_run_with_its_error() -> None:
    trouble = ProviderError(429, "Slow down.")
    played = await play(SHOUT, trouble, says("No."))
    assert played.figures == ("provider_error", "", None, None, 0, "run")
    assert played.reason.error is trouble
    assert "Slow down." in played.reason.reason
    assert (played.result.text, len(played.script.sent)) == (DIGEST, 2)
    usage = played.result.usage
    assert (usage["tokens"], usage["estimated"], usage["missing"]) == (100, 0, 0)
    for status in (301, 400):
        assert (await play(ProviderError(status, "What?"))).result.usage["tokens"] == 0


async def test_a_call_that_broke_off_is_counted_by_an_estimate() -> None:
    for trouble in (ProviderError(0, "Gone."), ProviderError(200, "Half."), KeyError("x")):
        usage = (await play(SHOUT, trouble)).result.usage
        assert usage["tokens"] > 100
        assert usage["estimated"] == 1


async def test_the_fallback_model_answers_for_a_provider_that_failed() -> None:
    played = await play(ProviderError(500, "Oops."), says("Hi."), fallback_model="cheap")
    assert played.reason.kind == StopReason.PROVIDER_ERROR
    assert played.script.models == ["script", "cheap"]
    assert (played.script.offered[-1], played.result.text) == (None, "Hi.")


async def test_a_provider_may_report_a_failure_as_an_answer() -> None:
    played = await play(ChatResponse("overloaded", finish_reason="error"))
    assert played.reason.kind == StopReason.PROVIDER_ERROR
    assert "overloaded" in played.reason.reason
    assert played.result.text == ""


async def test_a_prompt_that_the_provider_finds_too_long_ends_the_run() -> None:
    class ContextWindowExceededError(Exception):
        pass

    error = ContextWindowExceededError("9000 tokens")
    played = await play(error, fallback_model="cheap")
    assert (played.reason.kind, played.reason.error) == (StopReason.CONTEXT_LIMIT, error)
    assert played.script.models == ["script"]
    assert (played.result.usage["turns"], played.result.usage["tokens"]) == (1, 0)


async def test_a_provider_that_returns_nothing_has_failed() -> None:
    played = await play(lambda asked: None)
    assert played.reason.kind == StopReason.PROVIDER_ERROR
    assert played.reason.reason == "it returned nothing"


async def test_a_provider_that_cancels_itself_has_failed() -> None:
    def give_up(asked: "Any") -> None:
        raise asyncio.CancelledError

    assert (await play(give_up)).reason.kind == StopReason.PROVIDER_ERROR


async def test_a_provider_that_fails_in_the_last_call_leaves_what_there_is() -> None:
    for first in (SHOUT, calls(("shout", {"text": "hi"}), text="Let me see.")):
        played = await play(first, ProviderError(500, "Oops."), budget=Budget(max_turns=2))
        assert played.figures == ("turn_limit", "turns", 1, 2, 1, "run")
        assert played.result.text == (first.content or DIGEST)
        assert played.result.usage["turns"] == 2
        assert played.statuses == ["completed"]
        assert played.diary.of("response_failed")[0]["reason"].kind == StopReason.PROVIDER_ERROR


async def test_a_last_call_that_is_cancelled_says_so() -> None:
    def cancel(asked: "Any") -> "Any":
        played.run.cancel("Enough.")
        return hang()

    played = prepare(SHOUT, cancel, budget=Budget(max_turns=2))
    await played.run.finish()
    assert played.reason.kind == StopReason.CANCELLED


async def test_there_is_one_last_call_in_an_envelope() -> None:
    envelope = Envelope.open(Budget(max_turns=9))
    for sent in (2, 1):
        played = await play(
            SHOUT, budget=envelope, stop_when=MaxIterations(envelope.turns.used + 1)
        )
        assert len(played.script.sent) == sent


async def test_what_the_tools_returned_is_shortened_where_it_is_the_answer() -> None:
    for length, shown in ((200, "x" * 200), (201, "x" * 200 + "…")):
        tool = Tool("get", "", lambda length=length: "x" * length)
        played = await play(calls(("get", {})), tools=[tool], budget=Budget(max_turns=1))
        assert played.result.text == f"What the tools returned:\n- get: {shown}"
    many = calls(*[("shout", {"text": f"a\n {n}"}) for n in range(7)])
    played = await play(many, budget=Budget(max_turns=1))
    assert played.result.text.split("\n")[1:] == [f"- shout: A {n}" for n in range(2, 7)]


async def test_a_budget_that_keeps_nothing_has_no_last_call_for_any_reason() -> None:
    budget = Budget(max_turns=9, last_call=None)
    played = await play(SHOUT, budget=budget, stop_when=MaxIterations(1))
    assert len(played.script.sent) == 1


async def test_an_empty_last_answer_leaves_what_the_model_had_said() -> None:
    first = calls(("shout", {}), text="Let me see.")
    played = await play(first, says(""), budget=Budget(max_turns=2))
    assert (played.result.text, played.result.turns) == ("Let me see.", 2)


async def test_calls_in_the_last_answer_are_not_made() -> None:
    played = await play(SHOUT, budget=Budget(max_turns=2))
    assert (played.statuses, played.result.turns) == (["completed"], 2)
    assert played.result.messages[-1] == {"role": "assistant", "content": ""}


async def test_a_prompt_longer_than_the_context_ends_a_run() -> None:
    budget = Budget(max_context_tokens=100)
    counted = {"count_tokens": lambda messages, tools: 60 * len(messages)}
    played = await play(SHOUT, says("No."), budget=budget, **counted)
    assert played.figures == ("context_limit", "context tokens", 180, 100, 0, "run")
    assert (played.result.turns, played.result.text) == (1, DIGEST)
    long = [{"role": "user", "content": "x" * 1000}]
    assert (await play(says("No."), budget=budget, messages=long)).reason.used >= 254


async def test_a_budget_that_answers_in_the_models_place_cuts_a_run_off() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=2))
    script = Script(SHOUT)
    result = await Operative(BudgetWrapper(script, tracker), TOOLS).run("What now?")
    assert result.reason is not None
    assert (result.reason.kind, result.reason.scope) == (StopReason.CUT_OFF, tracker.SCOPE)
    assert result.reason.reason == result.text
    assert (result.turns, len(script.sent)) == (3, 2)
    assert result.messages[-1] == {"role": "assistant", "content": result.text}


async def test_a_budget_may_cut_a_run_off_without_words() -> None:
    played = await play(says(None, cut_off_by="daily"))
    assert (played.reason.kind, played.reason.reason) == (StopReason.CUT_OFF, "")


async def test_reports_that_make_no_sense_cost_an_estimate_and_are_seen() -> None:
    for usage, name in (
        (None, "estimated"),
        ({}, "estimated"),
        ({"total_tokens": -5}, "estimated"),
        ({"prompt_tokens": 500}, "missing"),
    ):
        played = await play(calls(("shout", {"text": "x" * 400})), says("y" * 400, usage=usage))
        seen = played.result.usage
        assert seen["tokens"] >= 300, usage
        assert (seen[name], seen["estimated"] + seen["missing"]) == (1, 1), usage


async def test_a_foreign_response_costs_an_estimate_whatever_it_holds() -> None:
    odd = says("Hello.", usage=None)
    for tool_calls, sound in ((5, False), ([{"name": "x"}], False), ((), True), (None, True)):
        odd.tool_calls = tool_calls  # type: ignore[assignment]
        played = await play(odd)
        assert played.result.usage["estimated"] == 1
        assert played.result.text == "Hello."
        assert played.result.completed is sound


async def test_an_unlimited_run_is_warned_of() -> None:
    assert len((await play(says("Hello."))).diary.of("warning")) == 1
    for budget in (Budget(max_turns=5), Envelope.open(Budget(max_turns=5)).child()):
        assert (await play(says("Hello."), budget=budget)).diary.of("warning") == []


async def test_what_is_wrong_with_an_operative_is_said_when_it_is_built() -> None:
    def work() -> str:
        return ""

    for named, wanted in (
        ({"budget": {"max_turns": 2}}, "budget must be a Budget or an Envelope, not {"),
        ({"budget": 5}, "not 5"),
        ({"tools": [work]}, "tools must be a list of Tool(name, description, function"),
        ({"tools": Budget()}, "tools must be"),
        ({"system_prompt": 5}, "system_prompt must be a string, not 5"),
        ({"on_event": []}, "on_event must be a function, not []"),
        ({"reflect": "me"}, "reflect must be a function"),
        ({"stop_when": Budget()}, "stop_when must be"),
        ({"wind_down": {}}, "wind_down must be"),
    ):
        error = raises(ValueError, Operative, Script(says("Hi.")), **named)
        assert wanted in str(error), named
    raises(TypeError, Operative, Script(says("Hi.")), stop_whn=None)
    assert "provider must be" in str(raises(ValueError, Operative, "http://127.0.0.1"))
    operative = Operative(Script(says("Hi.")))
    for messages in (None, 5, {"role": "user"}, ["Hi."]):
        assert "messages must be a text" in str(raises(ValueError, operative.begin, messages))


async def test_one_run_at_a_time_uses_an_envelope() -> None:
    async def hang(asked: "Any") -> None:
        waiting.set()
        await asyncio.Event().wait()

    waiting = asyncio.Event()
    envelope = Envelope.open(Budget(max_turns=9))
    first = Operative(Script(hang)).begin("?", envelope)
    task = asyncio.create_task(first.finish())
    await waiting.wait()
    second = Operative(Script(says("Hi."))).begin("?", envelope)
    error = await raises_async(ValueError, second.finish)
    assert "run is in use by another run: give each a child()" in str(error)
    first.cancel()
    assert "cancelled" in str((await task).reason)
    assert (await Operative(Script(says("Hi."))).run("?", envelope.continuation())).completed


async def test_a_condition_does_not_forbid_the_last_call_that_waits() -> None:
    async def slow(asked: "Any") -> "Any":
        waiting.set()
        await go_on.wait()
        return says("Slow.")

    waiting, go_on = asyncio.Event(), asyncio.Event()
    parent = Envelope.open(Budget(max_tokens=1_000))
    child = parent.child()
    child.turns.charge(1)
    first = asyncio.create_task(Operative(Script(slow)).run("?", parent.child()))
    await waiting.wait()
    agent = Operative(Script(says("Last.")), stop_when=MaxIterations(1))
    second = asyncio.create_task(agent.run("?", child))
    for _ in range(10):
        await asyncio.sleep(0)
    go_on.set()
    await first
    result = await second
    assert (result.text, str(result.reason)[:10]) == ("Last.", "turn limit")


async def test_middleware_sees_the_last_call_too_and_the_request_afresh() -> None:
    class Redacts(Middleware):
        seen = 0

        def before_llm(self, request: "Any", budget: "Any") -> None:
            self.seen += 1
            request.messages[-1] = dict(request.messages[-1], content=f"seen {self.seen}")

    redacts = Redacts()
    played = await play(
        ProviderError(500, "Down."),
        says("Up."),
        middleware=[redacts],
        fallback_model="other",
        budget=Budget(max_turns=5),
    )
    assert (redacts.seen, played.result.text) == (2, "Up.")
    sent = [[m["content"] for m in messages] for messages in played.script.sent]
    assert sent[0] == ["seen 1"]
    assert sent[1][0] == "seen 2"


async def test_an_answer_that_cannot_be_read_leaves_no_hold_and_its_cost_is_what_was_held() -> None:
    class Odd:
        usage = None

        @property
        def content(self) -> str:
            raise RuntimeError("no content")

    class Dear:
        def cost(self, *tokens: int) -> int:
            return 5

        def cost_of(self, *report: object) -> "tuple[int, bool]":
            raise RuntimeError("no price for that")

        def affordable(self, nano_usd: int, prompt: int) -> int:
            return 50

    envelope = Envelope.open(Budget(max_tokens=1_000))
    played = await play(Odd(), budget=envelope)
    assert (played.reason.kind, envelope.tokens.held) == (StopReason.PROVIDER_ERROR, 0)
    envelope = Envelope.open(Budget(max_tokens=1_000, max_nano_usd=100))
    played = await play(says("Hi."), budget=envelope, prices={"script": Dear()})
    assert (played.result.text, played.result.usage["missing"]) == ("Hi.", 1)
    assert (envelope.tokens.held, envelope.tokens.used, envelope.nano_usd.held) == (0, 50, 0)
    assert envelope.nano_usd.used == 5


async def test_a_limit_that_middleware_makes_up_is_refused() -> None:
    class Guess(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            request.max_tokens = float("nan")

    played = await play(says("Hi."), middleware=[Guess()], budget=Budget(max_tokens=1_000))
    assert played.reason.kind == StopReason.FAILED
    assert "max_tokens of the request must be a whole number" in str(played.reason)
    assert played.run.budget.tokens.held == 0


async def test_a_watcher_that_raises_changes_nothing() -> None:
    def watch() -> None:
        raise RuntimeError("watcher")

    envelope = Envelope.open(Budget(max_tokens=1_000))
    envelope.add_watcher(watch)
    played = await play(says("Hi."), budget=envelope)
    assert (played.result.text, played.result.completed, envelope.tokens.held) == ("Hi.", True, 0)


async def test_an_answer_that_is_no_text_becomes_text_and_is_kept_as_it_was() -> None:
    parts = [{"type": "thinking"}, {"type": "text", "text": "Hi"}, {"type": "text", "text": "."}]
    odds: list[tuple[Any, str]] = [
        (5, "5"),
        (True, "true"),
        ({"a": 1}, '{"a": 1}'),
        (b"Gr\xc3\xbc\xc3\x9fe", "Grüße"),
        (b"\xff", str(b"\xff")),
        (parts, "Hi."),
        (["Hi", "."], "Hi."),
        ([1, 2], "[1, 2]"),
        ({1}, str({1})),
    ]
    for content, text in odds:
        played = prepare(says(content))
        await played.run.finish()
        assert (played.reason, played.result.text) == (None, text), content
        assert played.result.messages[-1]["content"] is content


async def test_an_answer_whose_text_cannot_be_told_is_counted_all_the_same() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no text")

        __repr__ = __str__

    endless: list[object] = []
    endless.append(endless)
    odds: list[Any] = [Mute(), {"itself": endless}, []]
    for content in odds:
        played = await play(says(content))
        assert isinstance(played.result.text, str)
        assert (played.reason, played.result.usage["tokens"]) == (None, 100)


async def test_a_draft_that_is_no_text_is_reflected_on_as_text() -> None:
    drafts: list[str] = []
    parts: Any = [{"type": "text", "text": "Hi."}]
    budget = Budget(max_reflections=1)
    await play(says(parts), budget=budget, reflect=lambda text, _: drafts.append(text))
    assert drafts == ["Hi."]


async def test_words_beside_tool_calls_that_are_no_text_are_kept_as_they_were() -> None:
    beside = calls(("shout", {"text": "hi"}))
    beside.content = [{"type": "text", "text": "Look."}]  # type: ignore[assignment]
    played = await play(beside, RuntimeError("down"))
    assert played.result.text == "Look."
    assert played.result.messages[1]["content"] == [{"type": "text", "text": "Look."}]


async def test_what_is_no_text_joins_what_came_before() -> None:
    async def broken(asked: "Any") -> None:
        await asked["on_delta"]("Once")
        raise OSError(5)

    upon: Any = says(["upon"])  # type: ignore[arg-type]
    played = await play(broken, upon, stream=True, fallback_model="other")
    assert (played.result.text, played.result.messages[-1]["content"]) == ("upon", "Once\n\nupon")


async def test_the_repr_of_a_result_says_how_it_ended_and_nothing_that_was_said() -> None:
    done = await play(says("A secret."), messages="A secret?")
    assert repr(done.result) == "<OperativeResult: completed, 1 turns, 100 tokens>"
    failed = await play(ValueError("A secret."), messages="A secret?")
    assert repr(failed.result) == "<OperativeResult: provider_error, 1 turns, 116 tokens>"

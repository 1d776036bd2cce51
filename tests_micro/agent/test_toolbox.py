"""How the calls of a model become calls of tools, and what comes back."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.middleware import Middleware
from budget_core.agent.operative import Operative
from budget_core.agent.tool import Tool, ToolOutput
from budget_core.allowance import MAX_REPAIR_ATTEMPTS
from budget_core.deadline_token import DeadlineToken
from tests_micro.script import (
    SHOUT,
    TEXT,
    TOOLS,
    Played,
    Script,
    calls,
    check_conversation,
    play,
    prepare,
    says,
)
from tests_micro.support import raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GOOD = ("whisper", {"text": "A"})
BAD = ("whisper", {"text": 5})
SOON = 0.02


async def hang(**arguments: object) -> None:
    await asyncio.Event().wait()


async def called(*named: "tuple[str, Any]", **more: "Any") -> Played:
    """Play a run whose model calls those tools at once, then answers."""
    return await play(calls(*named), says("Done."), **more)


async def test_a_tool_may_be_plain_or_async() -> None:
    played = await called(("shout", {"text": "Hi"}), ("whisper", {"text": "Hi"}))
    assert played.told == ["HI", "hi"]


async def test_several_calls_in_one_answer_are_answered_in_their_order() -> None:
    played = await called(("shout", {"text": "a"}), ("nothing", {}), GOOD)
    results = played.result.tool_results
    assert [one["id"] for one in results] == ["c0", "c1", "c2"]
    assert [one["name"] for one in results] == ["shout", "nothing", "whisper"]
    assert results[2] == {
        "id": "c2",
        "name": "whisper",
        "arguments": {"text": "A"},
        "status": "completed",
        "content": "a",
    }
    assert played.told == [one["content"] for one in results]


async def test_a_tool_that_does_not_exist_is_told_with_those_that_do() -> None:
    played = await called(("rm", {}))
    assert played.told == ["Error: there is no tool rm; there are: fail, shout, whisper"]
    assert played.result.usage["tool_calls"] == 0
    played = await called(("rm", {}), tools=[])
    assert played.told == ["Error: there is no tool rm; there are: none"]
    assert played.script.offered == [None, None]


async def test_arguments_that_are_no_object_are_told_and_sent_back_as_an_empty_one() -> None:
    played = await called(("fail", None))
    assert played.told[0].startswith("Error: arguments must be a JSON object.")
    asked = played.result.messages[1]["tool_calls"][0]["function"]
    assert asked["arguments"] == "{}"


async def test_what_a_tool_raises_is_told_by_its_kind_and_the_run_goes_on() -> None:
    played = await called(("fail", {}), ("shout", {"txt": "a"}))
    assert played.told[0].startswith("Error: KeyError: ")
    assert played.told[1].startswith("Error: TypeError: ")
    assert (played.statuses, played.result.completed) == (["failed", "failed"], True)
    assert played.result.usage["tool_calls"] == 2


async def test_a_tool_that_cancels_itself_or_gives_up_oddly_has_failed() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError

    for error in (asyncio.CancelledError(), OSError(5), MuteError()):

        def odd(error: BaseException = error) -> None:
            raise error

        played = await called(("odd", {}), tools=[Tool("odd", "", odd)])
        assert (played.statuses, played.result.completed) == (["failed"], True)
        assert played.told[0].startswith("Error: ")


async def test_a_result_that_is_no_text_is_made_one() -> None:
    values: Any = ((5, "5"), (None, "null"), (True, "true"), (["a"], '["a"]'), ("", ""), ("a", "a"))
    for value, text in values:
        tool = Tool("get", "Gets it.", lambda value=value: value)
        played = await called(("get", {}), tools=[tool])
        assert (played.told, played.statuses) == ([text], ["completed"])


async def test_a_result_that_is_no_json_is_made_a_text() -> None:
    for value in ({1}, object()):
        played = await called(("get", {}), tools=[Tool("get", "", lambda value=value: value)])
        assert (bool(played.told[0]), played.statuses) == (True, ["completed"])


async def test_an_output_may_be_empty_or_no_text() -> None:
    for content, text in (("", ""), (5, "5")):
        output = ToolOutput(content)  # type: ignore[arg-type]
        played = await called(("get", {}), tools=[Tool("get", "", lambda out=output: out)])
        assert (played.told, played.result.completed) == ([text], True)


async def test_bad_arguments_ask_for_repair_a_few_times_and_are_then_denied() -> None:
    bad = [calls(BAD)] * (MAX_REPAIR_ATTEMPTS + 2)
    played = await play(*bad, says("Done."))
    assert played.statuses == ["invalid"] * MAX_REPAIR_ATTEMPTS + ["denied"] * 2
    wrong = "Error: arguments.text must be a string, not 5. "
    assert played.told[0] == wrong + "Nothing was done: call whisper again with that corrected."
    assert played.told[-1] == wrong + "The call is denied: go on without it."
    assert played.result.usage["tool_calls"] == 0


async def test_a_good_call_of_the_same_tool_gives_the_repairs_back() -> None:
    bad = [calls(BAD)] * MAX_REPAIR_ATTEMPTS
    played = await play(*bad, calls(GOOD), *bad, calls(BAD), says("Done."))
    again = ["invalid"] * MAX_REPAIR_ATTEMPTS
    assert played.statuses == again + ["completed"] + again + ["denied"]
    played = await play(*bad, calls(("shout", {}), BAD), says("Done."))
    assert played.statuses == again + ["completed", "denied"]


async def test_bad_calls_of_one_answer_are_one_attempt() -> None:
    for bad in (BAD, ("nothing", {})):
        attempts = [calls(bad, bad, bad)] * MAX_REPAIR_ATTEMPTS
        played = await play(*attempts, calls(bad), says("Done."))
        assert played.statuses == ["invalid"] * 3 * MAX_REPAIR_ATTEMPTS + ["denied"]


async def test_a_tool_that_is_blocked_is_denied() -> None:
    played = prepare(calls(GOOD), says("Done."), session_id="s1")
    played.run.state.blocked_tool_names.add("whisper")
    await played.run.finish()
    assert (played.statuses, played.result.usage["tool_calls"]) == (["denied"], 0)


async def test_a_tool_has_no_more_calls_than_its_own_cap() -> None:
    budget = Budget(max_calls={"whisper": 1}, max_turns=3)
    played = await called(GOOD, GOOD, ("shout", {}), budget=budget)
    assert played.statuses == ["completed", "denied", "completed"]
    assert played.told[1] == "Error: no call of whisper is left; go on without it."
    assert played.result.completed
    assert played.result.usage["tool_calls"] == 2


async def test_a_tool_that_was_not_offered_is_off() -> None:
    class Hides(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            if not budget.turns.used:
                del request.tools[1:]

    played = await called(GOOD, ("shout", {}), middleware=[Hides()])
    assert played.statuses == ["denied", "completed"]
    assert played.told[0] == "Error: whisper is off now; go on without it."
    assert played.script.offered == [["shout"], ["shout", "whisper", "fail"]]


async def test_a_cooperative_tool_gets_a_token_that_expires_with_the_run() -> None:
    seen: list[Any] = []

    def work(token: DeadlineToken) -> str:
        seen.append((token, token.remaining_s(), token.is_expired()))
        return "Half."

    for cap_s, left in ((None, 9), (5, 5), (50, 9)):
        tool = Tool("work", "Works.", work, None, cap_s, True)
        _, clock = stopped_clock()
        budget = Budget(timeout=10)
        played = await called(("work", {}), tools=[tool], clock=clock, budget=budget)
        assert played.told == ["Half."]
        token, remaining, expired = seen.pop()
        assert (remaining, expired) == (left, False)
        assert token.is_expired()


async def test_what_a_tools_own_callback_raises_is_no_matter() -> None:
    def work(token: DeadlineToken) -> str:
        token.on_cancel(lambda: 1 // 0)
        return "Done."

    played = await called(("work", {}), tools=[Tool("work", "", work, cooperative=True)])
    assert (played.statuses, played.result.completed) == (["completed"], True)


async def test_a_drawing_tool_gets_an_envelope_of_its_call_below_the_runs() -> None:
    def draw(budget: "Any") -> None:
        seen.append((budget, budget.stopped))

    seen: list[Any] = []
    played = await called(("draw", {}), tools=[Tool("draw", "", draw, draws=True)])
    budget, stopped = seen[0]
    assert (budget.parent, budget.name, stopped) == (played.run.budget, "run/draw", None)
    assert budget.stopped.reason == "its call is over", "what it left behind spends no more"
    assert played.run.budget.stopped is None


async def test_what_exits_the_program_is_a_tools_failure() -> None:
    def leave() -> None:
        raise SystemExit(3)

    played = await called(("leave", {}), tools=[Tool("leave", "", leave)])
    assert (played.told, played.statuses) == (["Error: SystemExit: 3"], ["failed"])
    assert played.result.completed


async def test_a_tool_may_report_what_it_used_of_a_model_itself() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    tool = Tool("ask", "", lambda: ToolOutput("Yes.", usage=usage))
    played = await called(("ask", {}), tools=[tool], session_id="s1")
    assert (played.told, played.result.usage["tokens"]) == (["Yes."], 242)
    assert played.result.state.input_tokens == 210


async def test_what_a_tool_cost_counts_also_without_tokens() -> None:
    dear = Tool("search", "", lambda: ToolOutput("Found.", usd="0.005"))
    played = await called(("search", {}), tools=[dear], session_id="s1")
    assert (played.result.usage["nano_usd"], played.result.usage["tokens"]) == (5_000_000, 200)
    assert (played.result.usage["missing"], played.result.state.missing_counts) == (0, 0)
    assert ToolOutput("Found.", usd=0.005).nano_usd == ToolOutput("", usd="0.005").nano_usd
    assert "usd" in str(raises(ValueError, ToolOutput, "Found.", usd="-1"))


async def test_a_tool_that_hangs_is_cancelled_at_its_own_cap() -> None:
    def answer(asked: "Any") -> "Any":
        trace = played.run.state.tool_trace
        assert [entry.status for entry in trace.values()] == ["timed_out"] * 2
        return says("Done.")

    tool = Tool("hang", "Hangs.", hang, cap_s=SOON)
    two = calls(("hang", {}), ("hang", {}))
    played = prepare(two, answer, tools=[tool], session_id="s1")
    await played.run.finish()
    assert played.statuses == ["timed_out", "timed_out"]
    assert played.told[0] == "Error: hang took too long and was cancelled"
    assert played.result.completed


async def test_a_tool_that_hangs_is_cancelled_with_the_time_of_the_run() -> None:
    async def wait() -> None:
        await asyncio.sleep(0)
        fake.advance(20)
        await hang()

    fake, clock = stopped_clock()
    tool = Tool("hang", "Hangs.", wait, cap_s=60)
    budget = Budget(timeout=SOON, last_call=0)
    played = await called(("hang", {}), ("hang", {}), tools=[tool], budget=budget, clock=clock)
    assert played.statuses == ["timed_out", "denied"]
    assert played.reason.kind == "timeout"


async def test_what_a_tool_returns_after_it_was_given_up_is_dropped() -> None:
    async def work() -> str:
        try:
            await hang()
        except asyncio.CancelledError:
            await over.wait()
        ended.set()
        return "Too late."

    over, ended = asyncio.Event(), asyncio.Event()
    tool = Tool("work", "", work, cap_s=SOON)
    played = prepare(calls(("work", {})), says("Done."), tools=[tool])
    await played.run.finish()
    over.set()
    await ended.wait()
    await asyncio.sleep(0)
    assert (played.statuses, played.run._toolbox.ends) == (["timed_out"], {})


async def test_a_tool_that_ends_when_it_is_cancelled_has_its_result_taken() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "Half."

    played = await called(("work", {}), tools=[Tool("work", "", work, cap_s=SOON)])
    assert (played.told, played.statuses) == (["Half."], ["completed"])


async def test_a_tool_that_resists_is_left_behind() -> None:
    end = asyncio.Event()

    async def work() -> str:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                pass
        return "Late."

    played = await called(("work", {}), tools=[Tool("work", "", work, cap_s=SOON)])
    end.set()
    await asyncio.sleep(0)
    assert (played.statuses, played.result.completed) == (["timed_out"], True)


async def test_a_run_that_is_cancelled_answers_all_calls_and_loses_no_result() -> None:
    async def cancel() -> None:
        played.run.cancel("Enough.")
        await hang()

    tools = [TOOLS[0], Tool("cancel", "", cancel)]
    three = calls(("shout", {"text": "a"}), ("cancel", {}), ("shout", {"text": "b"}))
    played = prepare(three, says("No."), tools=tools)
    await played.run.finish()
    check_conversation(played.result.messages)
    assert played.statuses == ["completed", "cancelled", "denied"]
    assert (played.reason.kind, played.reason.reason) == ("cancelled", "Enough.")
    assert played.told == ["A", "Error: cancelled", "Error: not called, the run has stopped"]


async def test_a_task_that_is_cancelled_answers_all_calls_and_loses_no_result() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await hang()

    tools = [TOOLS[0], Tool("wait", "", wait)]
    three = calls(("shout", {"text": "a"}), ("wait", {}), ("shout", {"text": "b"}))
    played = prepare(SHOUT, three, tools=tools, session_id="s1")
    task = asyncio.create_task(played.run.finish())
    await started.wait()
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    check_conversation(played.result.messages)
    assert played.statuses == ["completed", "completed", "cancelled", "cancelled"]
    assert [one["id"] for one in played.result.tool_results] == ["c0", "c0", "c1", "c2"]
    trace = played.result.state.tool_trace
    assert [trace[key].status for key in sorted(trace)] == ["completed", "completed", "timed_out"]


async def test_a_result_that_comes_with_a_cancellation_is_kept() -> None:
    def work() -> str:
        task.cancel()
        return "In time."

    played = prepare(calls(("work", {}), ("work", {})), tools=[Tool("work", "", work)])
    task = asyncio.create_task(played.run.finish())
    try:
        await task
    except asyncio.CancelledError:
        pass
    assert played.told == ["In time.", "Error: cancelled"]
    assert played.statuses == ["completed", "cancelled"]


async def test_two_tools_of_one_name_are_refused() -> None:
    assert "same name" in str(raises(ValueError, Operative, Script(says("Hi.")), TOOLS[:1] * 2))


async def test_a_tool_is_refused_for_what_is_wrong_with_it() -> None:
    for more in (
        {"name": ""},
        {"run": "shout"},
        {"parameters": {"type": "string"}},
        {"cap_s": -1},
    ):
        arguments: Any = dict({"name": "t", "description": "", "run": hang}, **more)
        error = str(raises(ValueError, Tool, **arguments))
        assert next(iter(more)) in error, error


async def test_a_tools_definition_is_what_chat_completions_describe() -> None:
    empty = {"type": "object", "properties": {}}
    for tool, parameters in ((TOOLS[1], TEXT), (TOOLS[2], empty)):
        assert tool.definition() == {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": parameters,
            },
        }

"""How a turn runs from the user's message to its end."""

import asyncio
import json

from budget_core.config import TurnBudgetConfig
from budget_core.errors import ProviderError
from budget_core.loop import Tool, run_turn
from budget_core.policy import TurnBudgetPolicy
from budget_core.provider import ChatResponse, ToolCall
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.support import raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.loop import TurnResult

QUESTION = {"role": "user", "content": "What now?"}


class Script:
    """A provider that answers by heart and remembers what it was sent."""

    def __init__(self, *answers: "ChatResponse | BaseException") -> None:
        self.answers = list(answers)
        self.sent: list[Any] = []
        self.offered: list[Any] = []

    def get_default_model(self) -> str:
        """Return the only model."""
        return "script"

    async def chat(self, messages: "Any", tools: "Any" = None, **more: "Any") -> ChatResponse:
        """Return the next answer; the last one for ever."""
        self.sent.append(json.loads(json.dumps(messages)))
        self.offered.append(tools)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Diary:
    """Someone who is told of every event."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, event: str, **fields: "Any") -> None:
        """Take a note of an event."""
        call = fields.get("call")
        detail = call.name if call else fields["response"].content
        self.lines.append(f"{event} {detail} {fields.get('result', '')}".strip())


def says(text: "str | None", **more: "Any") -> ChatResponse:
    return ChatResponse(text, **more)


def calls(*named: "tuple[str, Any]") -> ChatResponse:
    """Return an answer that calls tools by name, with their arguments."""
    asked = [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(named)]
    return ChatResponse(None, asked, "tool_calls")


def shout(text: str = "") -> str:
    return text.upper()


async def whisper(text: str) -> str:
    await asyncio.sleep(0)
    return text.lower()


def fail(**arguments: object) -> str:
    raise KeyError("lost")


TOOLS = [
    Tool("shout", "Says it loud.", shout, {"type": "object"}),
    Tool("whisper", "Says it softly.", whisper),
    Tool("fail", "Fails.", fail),
]


async def turn(*answers: "ChatResponse | BaseException", **more: "Any") -> "TurnResult":
    """Run a turn with those answers and all the tools."""
    return await run_turn(Script(*answers), [QUESTION], TOOLS, **more)


async def result_of(name: str, arguments: "Any") -> "Any":
    """Return what the model is told of a call."""
    result = await turn(calls((name, arguments)), says("Done."))
    assert result.reason == "completed"
    assert result.messages[2]["role"] == "tool"
    assert result.messages[2]["tool_call_id"] == "c0"
    return result.messages[2]["content"]


async def test_an_answer_without_calls_completes_a_turn() -> None:
    result = await turn(says("Hello."))
    assert (result.text, result.reason, result.iterations) == ("Hello.", "completed", 1)
    assert result.messages == [QUESTION, {"role": "assistant", "content": "Hello."}]


async def test_a_turn_that_ends_without_text_leaves_a_conversation_that_can_be_sent() -> None:
    for content in (None, ""):
        result = await turn(says(content))
        assert result.text == ""
        assert result.messages[-1] == {"role": "assistant", "content": ""}


async def test_the_model_is_told_what_its_call_came_to_and_asked_again() -> None:
    script = Script(calls(("shout", {"text": "hi"})), says("Done."))
    result = await run_turn(script, [QUESTION], TOOLS)
    function = {"name": "shout", "arguments": '{"text": "hi"}'}
    asked = [{"id": "c0", "type": "function", "function": function}]
    assert script.sent == [
        [QUESTION],
        [
            QUESTION,
            {"role": "assistant", "content": None, "tool_calls": asked},
            {"role": "tool", "tool_call_id": "c0", "content": "HI"},
        ],
    ]
    assert (result.text, result.iterations) == ("Done.", 2)


async def test_text_beside_a_call_is_kept() -> None:
    first = calls(("shout", {}))
    first.content = "Let me see."
    assert (await turn(first, says("Done."))).messages[1]["content"] == "Let me see."


async def test_a_tool_may_be_plain_or_async() -> None:
    assert await result_of("shout", {"text": "Hi"}) == "HI"
    assert await result_of("whisper", {"text": "Hi"}) == "hi"


async def test_several_calls_in_one_answer_are_answered_in_their_order() -> None:
    first = calls(("shout", {"text": "a"}), ("nothing", {}), ("whisper", {"text": "B"}))
    result = await turn(first, says("Done."))
    told = [(m["tool_call_id"], m["content"]) for m in result.messages if m["role"] == "tool"]
    assert told[0] == ("c0", "A")
    assert told[1][0] == "c1"
    assert told[2] == ("c2", "b")


async def test_a_tool_that_does_not_exist_is_told_with_those_that_do() -> None:
    told = await result_of("rm", {})
    assert told == "Error: there is no tool 'rm', only shout, whisper, fail"


async def test_arguments_that_are_no_object_are_told_and_no_tool_is_run() -> None:
    assert await result_of("fail", None) == "Error: the arguments of fail must be a JSON object"


async def test_arguments_that_were_no_object_are_sent_back_as_an_empty_one() -> None:
    result = await turn(calls(("fail", None)), says("Done."))
    assert result.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_arguments_that_do_not_fit_the_tool_are_told_as_its_error() -> None:
    for arguments in ({"txt": "a"}, {"text": "a", "b": 1}, {"not a name": 1}):
        assert (await result_of("shout", arguments)).startswith("Error: TypeError: "), arguments
    assert (await result_of("whisper", {})).startswith("Error: TypeError: ")


async def test_what_a_tool_raises_is_told_by_its_kind() -> None:
    assert (await result_of("fail", {})).startswith("Error: KeyError: ")


async def test_what_is_no_error_of_a_tool_ends_the_turn() -> None:
    for kind in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):

        def stop(kind: "type[BaseException]" = kind) -> str:
            raise kind()

        tools = [Tool("stop", "Stops.", stop)]
        script = Script(calls(("stop", {})), says("Done."))
        await raises_async(kind, run_turn, script, [QUESTION], tools)


async def test_a_result_that_is_no_text_is_made_one() -> None:
    for value, text in ((5, "5"), (None, "None"), (True, "True"), (["a"], "['a']")):
        tools = [Tool("get", "Gets it.", lambda value=value: value)]
        result = await run_turn(Script(calls(("get", {})), says("Done.")), [QUESTION], tools)
        assert result.messages[2]["content"] == text


async def test_a_tools_definition_is_what_chat_completions_describe() -> None:
    script = Script(says("Hello."))
    await run_turn(script, [QUESTION], TOOLS[:2])
    empty = {"type": "object", "properties": {}}
    assert script.offered == [
        [
            {"type": "function", "function": function}
            for function in (
                {"name": "shout", "description": "Says it loud.", "parameters": {"type": "object"}},
                {"name": "whisper", "description": "Says it softly.", "parameters": empty},
            )
        ]
    ]


async def test_a_turn_without_tools_offers_none() -> None:
    script = Script(calls(("shout", {})), says("Done."))
    result = await run_turn(script, [QUESTION])
    assert script.offered == [None, None]
    assert result.messages[2]["content"].startswith("Error: there is no tool 'shout'")


async def test_events_come_in_the_order_of_what_happens() -> None:
    diary = Diary()
    await turn(calls(("shout", {"text": "a"}), ("fail", None)), says("Done."), on_event=diary)
    assert diary.lines == [
        "response None",
        "tool_started shout",
        "tool_finished shout A",
        "tool_started fail",
        "tool_finished fail Error: the arguments of fail must be a JSON object",
        "response Done.",
    ]


async def test_what_a_listener_raises_reaches_the_caller() -> None:
    def deaf(event: str, **fields: object) -> None:
        raise ValueError(event)

    assert "response" in str(await raises_async(ValueError, turn, says("Hello."), on_event=deaf))


async def test_a_turn_without_a_policy_ends_after_its_iterations() -> None:
    for most in (0, 1, 3):
        script = Script(calls(("shout", {})))
        result = await run_turn(script, [QUESTION], TOOLS, max_iterations=most)
        assert (result.reason, result.iterations, len(script.sent)) == ("stopped", most, most)
        assert str(most) in result.text
        assert result.messages[-1] == {"role": "assistant", "content": result.text}


async def test_a_stopped_turn_leaves_no_call_unanswered() -> None:
    result = await turn(calls(("shout", {}), ("nothing", {})), max_iterations=1)
    roles = [message["role"] for message in result.messages]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


class Observer:
    """A policy that allows a number of iterations and remembers what it was asked."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[tuple[int, list[str]]] = []

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        """Allow the next LLM call, or not."""
        self.asked.append((iteration, list(tools_used)))
        return iteration < self.most

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        """Return the last words."""
        self.asked.append((iteration, list(tools_used)))
        return "Enough."


async def test_a_policy_is_asked_before_each_call_with_the_tools_used_so_far() -> None:
    policy = Observer(2)
    result = await turn(calls(("shout", {}), ("nothing", {})), policy=policy, max_iterations=1)
    both = ["shout", "nothing"]
    assert policy.asked == [(0, []), (1, both), (2, both + both), (2, both + both)]
    assert (result.text, result.reason, result.iterations) == ("Enough.", "stopped", 2)


async def test_a_budget_that_answers_in_the_models_place_cuts_a_turn_off() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=2))
    script = Script(calls(("shout", {})))
    result = await run_turn(BudgetWrapper(script, tracker), [QUESTION], TOOLS)
    assert (result.reason, result.iterations, len(script.sent)) == ("cut off", 3, 2)
    assert result.text
    assert result.messages[-1] == {"role": "assistant", "content": result.text}


async def test_a_budgets_policy_stops_a_turn_before_the_call_that_it_would_cut_off() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=2))
    script = Script(calls(("shout", {})))
    wrapper = BudgetWrapper(script, tracker)
    for _ in range(2):
        result = await run_turn(wrapper, [QUESTION], TOOLS, TurnBudgetPolicy(tracker))
        assert (result.reason, result.iterations) == ("stopped", 2)
    assert len(script.sent) == 4


async def test_a_notice_goes_to_the_model_and_not_into_the_conversation() -> None:
    config = TurnBudgetConfig(iteration_budget=4, warning_thresholds=(0.5,))
    script = Script(calls(("shout", {})), calls(("shout", {})), says("Done."))
    wrapper = BudgetWrapper(script, TurnBudgetTracker(config))
    result = await run_turn(wrapper, [QUESTION], TOOLS)
    assert script.sent[2][-1]["role"] == "user"
    assert [m["role"] for m in result.messages].count("user") == 1


async def test_the_callers_messages_are_left_alone() -> None:
    messages = [dict(QUESTION)]
    result = await run_turn(Script(calls(("shout", {})), says("Done.")), messages, TOOLS)
    assert messages == [QUESTION]
    assert result.messages is not messages
    assert len(result.messages) == 4


async def test_messages_may_be_any_sequence() -> None:
    assert (await run_turn(Script(says("Hello.")), (QUESTION,))).text == "Hello."


async def test_a_result_can_begin_the_next_turn() -> None:
    result = await turn(calls(("shout", {})), says("Done."))
    script = Script(says("Hello."))
    await run_turn(script, result.messages + [QUESTION], TOOLS)
    assert script.sent == [result.messages + [QUESTION]]


async def test_what_the_provider_raises_reaches_the_caller_as_it_is() -> None:
    trouble = ProviderError(429, "Slow down.")
    first = calls(("shout", {"text": "a"}))
    diary = Diary()
    assert await raises_async(ProviderError, turn, first, trouble, on_event=diary) is trouble
    assert diary.lines[-1] == "tool_finished shout A"

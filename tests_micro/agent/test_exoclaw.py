"""What exoclaw's loop is told by a budget, as its provider and as its iteration policy."""

import asyncio

from budget_core import (
    Budget,
    BudgetWrapper,
    ChatResponse,
    Enforcement,
    Envelope,
    ExoclawBudget,
    Middleware,
    Price,
    StopReason,
    StopRequested,
    ToolCall,
    TurnBudgetConfig,
    TurnBudgetTracker,
    WindDown,
)
from budget_core.agent.stop_condition import StopCondition
from tests_micro.script import Script, says, streams
from tests_micro.support import raises, raises_async, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

USAGE = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
QUESTION: "list[dict[str, Any]]" = [{"role": "user", "content": "Is anything there?"}]
NAMES = ("look", "search")
REFUSED = "[Budget] None of the tools you called can be called now. Go on without them."


class ContextWindowExceededError(Exception):
    """What exoclaw's is called."""


class Scripted(Script):
    """A provider that says its lines in turn; a list calls the tools named in it."""

    def __init__(self, *lines: "Any") -> None:
        super().__init__(*[answer_of(line) for line in lines], model="big")
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def asked(self) -> "list[list[str]]":
        """Return the messages of each call but the question, as `role: content`."""
        return [[f"{one['role']}: {one['content']}" for one in sent[1:]] for sent in self.sent]


def answer_of(line: "Any") -> "Any":
    """Return a line as an answer, which is made anew each time: the adapter takes calls out."""
    if isinstance(line, str):
        return lambda request: says(line)
    return (lambda request: calling(None, *line)) if isinstance(line, list) else line


def calling(text: "str | None", *names: str) -> ChatResponse:
    """Return an answer that calls tools."""
    calls = [ToolCall(f"call_{number}", name, {}) for number, name in enumerate(names)]
    return ChatResponse(text, calls, "tool_calls", USAGE)


def definitions(*names: str) -> "list[dict[str, Any]]":
    return [{"type": "function", "function": {"name": name}} for name in names]


class Loop:
    """A loop that asks what exoclaw's asks, in its order; `called` has the tools that it ran."""

    def __init__(
        self, adapter: ExoclawBudget, run: "Callable[[str], object] | None" = None
    ) -> None:
        self.adapter = adapter
        self.run = run or str.upper
        self.called: list[str] = []
        self.responses: list[Any] = []

    async def turn(self, question: "list[dict[str, Any]]" = QUESTION, **options: "Any") -> str:
        messages, iteration = list(question), 0
        used: list[str] = []
        while await self.adapter.should_continue(iteration, used):
            iteration += 1
            response = await self.adapter.chat(
                messages=messages,
                tools=definitions(*NAMES),
                model=self.adapter.get_default_model(),
                temperature=0.1,
                max_tokens=4096,
                reasoning_effort=None,
                **options,
            )
            self.responses.append(response)
            if not response.has_tool_calls:
                return str(response.content)
            messages.append({"role": "assistant", "content": response.content})
            for call in response.tool_calls:
                self.called.append(call.name)
                content = str(self.run(call.name))
                messages.append({"role": "tool", "name": call.name, "content": content})
        return await self.adapter.on_limit_reached(iteration, used)


async def test_a_turn_within_its_budget_is_as_it_would_be_without() -> None:
    provider = Scripted(["look"], "Nothing.")
    adapter = ExoclawBudget(provider, Budget(max_turns=5, max_tokens=10_000))
    assert await Loop(adapter).turn() == "Nothing."
    assert adapter.reason is None
    assert provider.asked() == [[], ["assistant: None", "tool: LOOK"]]
    given = provider.requests[0]
    assert (given["model"], given["temperature"], given["max_tokens"]) == ("big", 0.1, 4096)
    assert "reasoning_effort" not in given
    assert "on_delta" not in given
    used = adapter.budget.usage()
    assert (used["turns"], used["tokens"], used["tool_calls"]) == (2, 200, 1)


async def test_the_last_turn_is_a_last_call_without_tools() -> None:
    provider = Scripted(["look"], ["look"], "All I found.")
    adapter = ExoclawBudget(provider, Budget(max_turns=3))
    assert await Loop(adapter).turn() == "All I found."
    assert provider.offered == [["look", "search"], ["look", "search"], None]
    assert "[Budget exhausted] turn limit: 2 of 2 turns" in provider.asked()[2][-1]
    assert adapter.reason is not None
    assert adapter.reason.kind == StopReason.TURN_LIMIT
    assert not await adapter.should_continue(3, [])
    assert await adapter.on_limit_reached(3, []) == "All I found."


async def test_tool_calls_of_a_last_answer_are_not_made() -> None:
    loop = Loop(ExoclawBudget(Scripted(["look"]), Budget(max_turns=2)))
    assert await loop.turn() == (
        "[Stopped: turn limit: 1 of 1 turns, and one reserved for the answer]\n"
        "What the tools returned:\n- look: LOOK"
    )
    assert loop.called == ["look"]
    last = loop.responses[-1]
    assert last.cut_off_by == "budget"
    assert last.usage["total_tokens"] == 0


async def test_only_this_turns_tool_results_stand_in_for_an_answer() -> None:
    earlier = [{"role": "tool", "name": "look", "content": "old"}] + QUESTION
    loop = Loop(ExoclawBudget(Scripted(RuntimeError("no line")), Budget()))
    assert await loop.turn(earlier) == "[Stopped: provider error: RuntimeError: no line]"


async def test_the_completion_is_clamped_to_what_is_left() -> None:
    provider = Scripted(["look"], "Nothing.")
    adapter = ExoclawBudget(provider, Budget(max_tokens=1000, max_tokens_per_turn=850))
    await Loop(adapter).turn()
    assert [given["max_tokens"] for given in provider.requests] == [850, 800]


async def test_a_batch_beyond_the_cap_is_cut_and_ends_in_a_last_call() -> None:
    provider = Scripted(["look", "search", "look"], "Two things.")
    loop = Loop(ExoclawBudget(provider, Budget(max_turns=9, max_tool_calls=2)))
    assert await loop.turn() == "Two things."
    assert loop.called == ["look", "search"]
    assert provider.offered == [["look", "search"], None]
    assert loop.adapter.reason is not None
    assert loop.adapter.reason.kind == StopReason.TOOL_CALL_LIMIT


async def test_a_batch_of_which_nothing_is_left_brings_the_last_call_at_once() -> None:
    for text in (None, "Let me look."):
        provider = Scripted(calling(text, "look", "look"), "From memory, then.")
        loop = Loop(ExoclawBudget(provider, Budget(max_turns=9, max_tool_calls=0)))
        assert await loop.turn() == "From memory, then."
        assert (len(loop.responses), loop.called) == (1, [])
        said = [] if text is None else ["assistant: Let me look."]
        assert provider.asked()[1][: len(said) + 1] == said + ["user: " + REFUSED]
        assert "[Budget exhausted] tool call limit" in provider.asked()[1][-1]


async def test_what_the_model_had_said_is_not_lost_where_no_last_call_is_kept() -> None:
    provider = Scripted(calling("Let me look.", "look"))
    loop = Loop(ExoclawBudget(provider, Budget(max_turns=9, max_tool_calls=0, last_call=None)))
    reply = await loop.turn()
    assert reply == "[Stopped: tool call limit: 1 of 0 tool calls]\nLet me look."
    assert len(provider.requests) == 1


async def test_a_tool_with_no_call_left_is_named_to_the_model_and_the_turn_goes_on() -> None:
    provider = Scripted(["look"], ["look"], ["search"], "Both.")
    loop = Loop(ExoclawBudget(provider, Budget(max_turns=9, max_calls={"look": 1})))
    assert await loop.turn() == "Both."
    assert loop.called == ["look", "search"]
    assert provider.asked()[2][-1] == "user: " + REFUSED
    assert loop.adapter.reason is None


async def test_a_call_of_a_tool_that_is_not_offered_is_taken_out() -> None:
    provider = Scripted(["hidden", "look"], "Nothing.")
    loop = Loop(ExoclawBudget(provider, Budget(max_turns=9)))
    assert await loop.turn() == "Nothing."
    assert loop.called == ["look"]
    assert loop.adapter.budget.usage()["tool_calls"] == 1


async def test_a_tool_that_was_narrowed_away_is_not_called() -> None:
    provider = Scripted(["look"], ["look", "search"], "Nothing.")
    stages = WindDown(narrow_at=0.1, tools_off_at=None)
    adapter = ExoclawBudget(provider, Budget(max_turns=9), wind_down=stages, essential=["search"])
    loop = Loop(adapter)
    assert await loop.turn() == "Nothing."
    assert provider.offered == [["look", "search"], ["search"], ["search"]]
    assert loop.called == ["look", "search"]


async def test_a_model_that_knows_no_other_tools_is_not_asked_for_ever() -> None:
    provider = Scripted(["hidden"])
    adapter = ExoclawBudget(provider, Budget())
    reply = await Loop(adapter).turn()
    assert reply == "[Stopped: no progress: the model calls tools that it does not have]"
    assert provider.offered == [["look", "search"], ["look", "search"], None]
    assert adapter.reason is not None
    assert adapter.reason.kind == StopReason.NO_PROGRESS


async def test_no_tool_begins_when_the_time_is_over() -> None:
    fake, clock = stopped_clock()

    async def slow(request: "Any") -> ChatResponse:
        fake.advance(9_500)
        return calling(None, "look")

    provider = Scripted(slow, "Too late to look.")
    loop = Loop(ExoclawBudget(provider, Envelope.open(Budget(timeout=10), clock)))
    assert await loop.turn() == "Too late to look."
    assert loop.called == []
    assert loop.adapter.reason is not None
    assert loop.adapter.reason.kind == StopReason.TIMEOUT


async def test_a_call_in_flight_is_cut_when_the_run_is_stopped() -> None:
    async def hang(request: "Any") -> ChatResponse:
        adapter.budget.stop("the user left")
        await asyncio.Event().wait()
        return ChatResponse("never")

    adapter = ExoclawBudget(Scripted(["look"], hang), Budget())
    reply = await Loop(adapter).turn()
    assert reply.startswith("[Stopped: explicit stop: the user left]\nWhat the tools returned:")


async def test_the_tools_time_counts() -> None:
    fake, clock = stopped_clock()
    provider = Scripted(["look"], "In a hurry.")
    adapter = ExoclawBudget(provider, Envelope.open(Budget(timeout=10), clock))
    assert await Loop(adapter, lambda name: fake.advance(9_500)).turn() == "In a hurry."
    assert provider.offered[1] is None
    assert adapter.reason is not None
    assert adapter.reason.kind == StopReason.TIMEOUT


async def test_each_turn_has_a_whole_budget_of_its_own() -> None:
    adapter = ExoclawBudget(Scripted(["look"], "One.", "Two."), Budget(max_turns=2))
    loop = Loop(adapter)
    assert await loop.turn() == "One."
    first = adapter.budget
    assert adapter.reason is not None
    assert await loop.turn() == "Two."
    assert adapter.reason is None
    assert adapter.budget is not first
    assert [one.usage()["turns"] for one in (first, adapter.budget)] == [2, 1]


async def test_an_envelope_is_used_as_it_is_over_several_turns() -> None:
    envelope = Envelope.open(Budget(max_turns=3))
    provider = Scripted("One.", ["look"], "Two.")
    adapter = ExoclawBudget(provider, envelope)
    loop = Loop(adapter)
    assert [await loop.turn(), await loop.turn()] == ["One.", "Two."]
    assert envelope.usage()["turns"] == 3
    reply = "[Stopped: turn limit: 2 of 2 turns, and one reserved for the answer]"
    assert await loop.turn() == reply
    assert len(provider.requests) == 3
    assert adapter.budget is envelope


async def test_a_failure_ends_one_turn_and_not_the_envelope() -> None:
    envelope = Envelope.open(Budget(max_turns=9))
    loop = Loop(ExoclawBudget(Scripted(RuntimeError("down"), "Back again."), envelope))
    assert await loop.turn() == "[Stopped: provider error: RuntimeError: down]"
    assert loop.adapter.reason is not None
    assert await loop.turn() == "Back again."
    assert loop.adapter.reason is None


async def test_a_child_draws_on_its_parent_and_renews_nothing() -> None:
    adapter = ExoclawBudget(Scripted(["look"]), Budget(max_turns=9))
    await adapter.should_continue(0, [])
    child = adapter.child("helper", max_turns=3)
    first = await Loop(child).turn()
    assert first.startswith(
        "[Stopped: turn limit: 2 of 2 turns, and one reserved for the answer (helper)"
    )
    assert await Loop(child).turn() == first.split("\n")[0]
    assert adapter.budget.usage()["turns"] == 3
    assert adapter.reason is None


async def test_a_child_gets_nothing_of_what_its_parent_keeps() -> None:
    adapter = ExoclawBudget(Scripted(["look"]), Budget(max_turns=3))
    await adapter.should_continue(0, [])
    reply = await Loop(adapter.child()).turn()
    assert reply.startswith("[Stopped: turn limit: 2 of 2 turns, and one reserved for the answer]")
    assert adapter.budget.usage()["turns"] == 2


async def test_a_child_follows_its_parent_into_the_next_turn() -> None:
    adapter = ExoclawBudget(Scripted("Yes."), Budget(max_turns=9))
    child = adapter.child("helper", max_turns=1)
    grandchild = child.child("helper's")
    for _ in range(2):
        await adapter.should_continue(0, [])
        assert await Loop(grandchild).turn() == "Yes."
        assert grandchild.budget.parent is child.budget
        assert child.budget.parent is adapter.budget
        assert grandchild.budget.chain()[1].name == "helper"
        assert adapter.budget.usage()["turns"] == 1


async def test_a_child_has_its_parents_options_but_those_of_a_single_run() -> None:
    seen: list[str] = []

    class Never(StopCondition):
        def reset(self) -> None:
            seen.append("reset")

    provider = Scripted("Yes.")
    adapter = ExoclawBudget(
        provider,
        Budget(max_nano_usd=10**9),
        model="small",
        prices={"small": Price(1, 1)},
        stop_when=Never(),
        on_event=lambda kind, **fields: seen.append(kind),
    )
    assert seen == ["reset"]
    await Loop(adapter.child()).turn()
    assert seen == ["reset"]
    assert provider.requests[0]["model"] == "small"
    assert adapter.budget.usage()["nano_usd"] == 100_000


async def test_children_side_by_side_never_overspend_their_parent() -> None:
    async def slowly(request: "Any") -> ChatResponse:
        await asyncio.sleep(0)
        return calling(None, "look")

    provider = Scripted(slowly)
    adapter = ExoclawBudget(provider, Budget(max_turns=11, max_tool_calls=8))
    await adapter.should_continue(0, [])
    loops = [Loop(adapter.child(f"child {number}", max_turns=5)) for number in range(3)]
    await asyncio.gather(*[loop.turn() for loop in loops])
    assert adapter.budget.usage()["turns"] <= 10
    assert len(provider.requests) == adapter.budget.usage()["turns"]
    assert sum([len(loop.called) for loop in loops]) == 8
    assert adapter.budget.remaining()["tool_calls"] == 0


async def test_a_prompt_too_long_is_left_to_the_loop_and_costs_no_tokens() -> None:
    provider = Scripted(ContextWindowExceededError("too long"), "Short enough.")
    adapter = ExoclawBudget(provider, Budget(max_turns=5), fallback_model="small")
    await adapter.should_continue(0, [])
    error = await raises_async(Exception, adapter.chat, QUESTION)
    assert type(error).__name__ == "ContextWindowExceededError"  # exoclaw's, where it is in use
    assert await adapter.should_continue(1, [])
    assert (await adapter.chat(QUESTION)).content == "Short enough."
    assert adapter.reason is None
    assert adapter.budget.usage()["tokens"] == 100
    assert adapter.budget.usage()["turns"] == 2


async def test_a_prompt_too_long_for_the_last_call_ends_the_turn() -> None:
    provider = Scripted(["look"], ContextWindowExceededError("too long"))
    loop = Loop(ExoclawBudget(provider, Budget(max_turns=2)))
    assert (await loop.turn()).endswith("- look: LOOK")
    assert loop.adapter.reason is not None
    assert loop.adapter.reason.kind == StopReason.TURN_LIMIT


async def test_a_provider_that_fails_gives_way_to_the_fallback_model() -> None:
    provider = Scripted(RuntimeError("down"), "Standing in.")
    adapter = ExoclawBudget(provider, Budget(max_turns=5), fallback_model="small")
    assert await Loop(adapter).turn() == "Standing in."
    assert [given["model"] for given in provider.requests] == ["big", "small"]
    assert adapter.reason is not None
    assert adapter.reason.kind == StopReason.PROVIDER_ERROR


async def test_an_answer_cut_off_by_its_length_says_so_in_the_reason() -> None:
    adapter = ExoclawBudget(Scripted(ChatResponse("Half an", None, "length", USAGE)), Budget())
    assert await Loop(adapter).turn() == "Half an"
    assert adapter.reason is not None
    assert adapter.reason.kind == StopReason.TOKEN_BUDGET


async def test_a_wrapper_inside_that_cuts_off_ends_the_turn() -> None:
    config = TurnBudgetConfig(iteration_budget=1, enforcement=Enforcement.CUTOFF)
    inner = BudgetWrapper(Scripted(["look"]), TurnBudgetTracker(config))
    adapter = ExoclawBudget(inner, Budget(max_turns=9))
    loop = Loop(adapter)
    assert await loop.turn() == loop.responses[-1].content
    assert adapter.reason is not None
    assert (adapter.reason.kind, adapter.reason.scope) == (StopReason.CUT_OFF, "turn")


async def test_a_stopped_stream_keeps_the_words_that_came() -> None:
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    adapter = ExoclawBudget(
        Scripted(streams("Half a ", "word", RuntimeError("line lost"))), Budget()
    )
    assert adapter.supports_response_deltas is True
    reply = await Loop(adapter).turn(on_delta=hear)
    assert reply == "[Stopped: provider error: RuntimeError: line lost]\nHalf a word"
    assert heard == ["Half a ", "word"]
    assert adapter.budget.usage()["estimated"] == 1


async def test_middleware_sees_the_requests_of_the_loop() -> None:
    class Sober(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            request.options["temperature"] = 0

    provider = Scripted("Yes.")
    await Loop(ExoclawBudget(provider, Budget(), middleware=[Sober()])).turn()
    assert provider.requests[0]["temperature"] == 0


async def test_tools_are_not_called_once_middleware_has_stopped_the_run() -> None:
    class Enough(Middleware):
        def after_llm(self, request: "Any", response: "Any", budget: "Any") -> None:
            raise StopRequested("seen enough")

    provider = Scripted(calling("Let me look.", "look"))
    loop = Loop(ExoclawBudget(provider, Budget(), middleware=[Enough()]))
    assert await loop.turn() == "Let me look."
    assert (loop.called, len(provider.requests)) == ([], 1)
    assert str(loop.adapter.reason) == "explicit stop: seen enough"


async def test_the_loops_own_messages_are_left_alone() -> None:
    messages = list(QUESTION)
    adapter = ExoclawBudget(Scripted(["hidden"], "Nothing."), Budget(max_turns=2))
    assert (await adapter.chat(messages, definitions(*NAMES))).content == "Nothing."
    assert messages == QUESTION


async def test_everything_else_is_the_inner_providers() -> None:
    provider = Scripted("Yes.")
    adapter = ExoclawBudget(provider, Budget())
    assert adapter.requests is provider.requests
    assert adapter.get_default_model() == "big"
    raises(AttributeError, getattr, adapter, "no_such_thing")
    await adapter.close()
    assert provider.closed == 1


def test_what_is_no_budget_is_refused() -> None:
    provider = Scripted("Yes.")
    assert "budget" in str(raises(ValueError, ExoclawBudget, provider, 5))
    raises(TypeError, ExoclawBudget, provider, Budget(), no_such_option=1)
    raises(ValueError, ExoclawBudget(provider, Budget()).child, max_turns=-1)

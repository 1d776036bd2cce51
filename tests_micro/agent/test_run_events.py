"""What the listener of a run is told, and in which order."""

from budget_core.agent.budget import Budget
from budget_core.agent.middleware import Middleware
from budget_core.agent.stop import StopRequested
from budget_core.agent.tool import Tool, ToolOutput
from budget_core.errors import ProviderError
from tests_micro.script import SHOUT, USAGE, calls, play, says
from tests_micro.support import stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TURN = "turn_started response "
TOOL = "tool_started tool_finished "
LAST = "turn_started notice response turn_completed stopped"
OOPS = ProviderError(500, "Oops.")
STOP = Tool("stop", "Stops.", lambda: ToolOutput.stop("Done."))


class Stops(Middleware):
    """Stops a run before its first tool."""

    def before_tool(self, call: "Any", budget: "Any") -> None:
        """Stop."""
        raise StopRequested("No tools.")


async def streamed(asked: "Any") -> "Any":
    for piece in ("Hel", "lo."):
        await asked["on_delta"](piece)
    return says("Hello.")


def once(text: str, budget: "Any") -> "str | None":
    return "Mend it." if budget.reflections.used < 2 else None


ORDERS: "tuple[tuple[str, list[Any], dict[str, Any], str], ...]" = (
    ("an answer", [says("Hi.")], {}, TURN + "turn_completed completed"),
    (
        "a tool",
        [SHOUT, says("Hi.")],
        {},
        TURN + TOOL + "turn_completed " + TURN + "turn_completed completed",
    ),
    (
        "two tools, one of them unknown",
        [calls(("shout", {}), ("rm", {})), says("Hi.")],
        {},
        TURN + TOOL + TOOL + "turn_completed " + TURN + "turn_completed completed",
    ),
    (
        "the turn limit",
        [SHOUT, says("Hi.")],
        {"budget": Budget(max_turns=2)},
        TURN + TOOL + "turn_completed " + LAST,
    ),
    ("no turn at all", [SHOUT], {"budget": Budget(max_turns=0)}, "stopped"),
    (
        "a stop by a tool",
        [calls(("stop", {}), ("stop", {}))],
        {"tools": [STOP]},
        TURN + TOOL + "turn_completed stopped",
    ),
    (
        "a stop by middleware",
        [SHOUT],
        {"middleware": [Stops()]},
        TURN + TOOL + "turn_completed stopped",
    ),
    ("a failure", [OOPS], {}, "turn_started response_failed stopped"),
    (
        "a failure, with a fallback model",
        [OOPS, says("Hi.")],
        {"fallback_model": "other"},
        "turn_started response_failed " + LAST,
    ),
    (
        "a failure in the final call",
        [SHOUT, OOPS],
        {"budget": Budget(max_turns=2)},
        TURN + TOOL + "turn_completed turn_started notice response_failed stopped",
    ),
    (
        "a notice",
        [SHOUT, says("Hi.")],
        {"budget": Budget(max_turns=3)},
        TURN + TOOL + "turn_completed turn_started notice response turn_completed completed",
    ),
    (
        "a stream",
        [streamed],
        {"stream": True},
        "turn_started delta delta response turn_completed completed",
    ),
    (
        "a reflection",
        [says("Draft."), says("Hi.")],
        {"reflect": once},
        TURN + "reflection turn_completed " + TURN + "reflection turn_completed completed",
    ),
    (
        "a compaction",
        [SHOUT, says("Hi.")],
        {
            "budget": Budget(max_context_tokens=2, max_turns=9),
            "count_tokens": lambda messages, tools: len(messages),
            "compact": lambda messages: messages[:1],
        },
        TURN + TOOL + "turn_completed compacted " + TURN + "turn_completed completed",
    ),
)


async def test_events_come_in_the_order_of_what_happens() -> None:
    for scenario, answers, more, order in ORDERS:
        more = dict({"budget": Budget(max_turns=9)}, **more)
        played = await play(*answers, **more)
        assert " ".join(played.diary.kinds) == "started " + order, scenario


async def test_a_run_without_limits_begins_with_a_warning() -> None:
    played = await play(says("Hi."))
    assert played.diary.kinds[:2] == ["started", "warning"]
    assert played.diary.of("warning") == [
        {"text": "this run has no limit on turns, tokens, time or money"}
    ]


async def test_a_turn_begins_with_what_remains_on_each_axis() -> None:
    fake, clock = stopped_clock()
    slow = Tool("slow", "Slow.", lambda: fake.advance(2_000))
    budget = Budget(max_turns=4, max_tokens=1_000, timeout=10, max_tool_calls=3, max_reflections=2)
    played = await play(
        calls(("slow", {})), says("Hi."), tools=[slow], clock=clock, budget=budget, model="small"
    )
    rest = {"nano_usd": None, "reflections": 2}
    begun = played.diary.of("turn_started")
    assert begun[0]["remaining"] == dict(rest, turns=3, tokens=900, tool_calls=3, time_ms=9_000)
    assert begun[1]["remaining"] == dict(rest, turns=2, tokens=800, tool_calls=2, time_ms=7_000)
    assert [(one["turn"], one["stage"], one["model"]) for one in begun] == [
        (1, "normal", "small"),
        (2, "normal", "small"),
    ]
    started = played.diary.of("started")[0]
    assert started["budget"] is played.run.budget
    assert started["remaining"] == dict(rest, turns=3, tokens=900, tool_calls=3, time_ms=9_000)


async def test_a_turn_ends_with_what_it_used_and_what_was_used_so_far() -> None:
    fake, clock = stopped_clock()
    slow = Tool("slow", "Slow.", lambda: fake.advance(2_000))
    played = await play(calls(("slow", {})), says("Hi."), tools=[slow], clock=clock)
    first, second = played.diary.of("turn_completed")
    names = ("nano_usd", "reflections", "estimated", "missing", "unpriced", "retries")
    none = dict.fromkeys(names, 0)
    used = dict(none, turns=1, tokens=100, tool_calls=1, elapsed_ms=2_000)
    assert (first["turn"], first["usage"], first["cumulative_usage"]) == (1, used, used)
    assert second["usage"] == dict(none, turns=1, tokens=100, tool_calls=0, elapsed_ms=0)
    all_of_it = dict(none, turns=2, tokens=200, tool_calls=1, elapsed_ms=2_000)
    assert (second["turn"], second["cumulative_usage"]) == (2, all_of_it)
    assert played.diary.of("completed")[0]["usage"] == played.result.usage == all_of_it


async def test_the_last_event_has_the_result_the_reason_and_the_usage() -> None:
    played = await play(SHOUT, budget=Budget(max_turns=1))
    assert played.diary.events[-1][1] == {
        "reason": played.reason,
        "usage": played.result.usage,
        "result": played.result,
    }
    assert played.result.usage["tokens"] == 100


async def test_an_answer_and_a_tool_call_are_events_with_what_they_came_to() -> None:
    both = calls(("shout", {"text": "hi"}), ("fail", {}))
    played = await play(both, says("Hi."))
    first, second = played.diary.of("response")
    assert (first["response"], first["usage"], first["model"]) == (both, USAGE, "script")
    assert second["response"].content == "Hi."
    ended = played.diary.of("tool_finished")
    assert [(one["call"].name, one["status"]) for one in ended] == [
        ("shout", "completed"),
        ("fail", "failed"),
    ]
    assert ended[0]["result"] == "HI"


async def test_the_state_of_a_run_counts_its_tokens() -> None:
    state = (await play(SHOUT, says("Hi."), session_id="s1")).result.state
    assert (state.session_id, state.input_tokens, state.output_tokens) == ("s1", 180, 20)
    assert [entry.status for entry in state.tool_trace.values()] == ["completed"]


async def test_a_listener_that_raises_changes_nothing() -> None:
    def deaf(kind: str, **fields: object) -> None:
        raise ValueError(kind)

    async def slow(kind: str, **fields: object) -> None:
        raise AssertionError

    quiet = await play(SHOUT, says("Hi."))
    assert quiet.result.hook_error is None
    for listener, error in ((deaf, "completed"), (slow, "must be a plain function")):
        played = await play(SHOUT, says("Hi."), on_event=listener)
        assert played.result.messages == quiet.result.messages
        assert played.result.completed
        assert error in str(played.result.hook_error)
    assert (await play(says("Hi."), on_event=None)).result.completed

"""How drafts of an answer are improved, and conversations that grew too long are compacted."""

import asyncio

from budget_core.agent.budget import Budget
from tests_micro.script import QUESTION, SHOUT, play, says
from tests_micro.support import stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def mend(text: str, budget: "Any") -> str:
    return f"Not {text}"


async def test_a_draft_is_improved_as_often_as_is_allowed() -> None:
    drafts = [says(str(n)) for n in range(5)]
    for most in (0, 1, 3):
        played = await play(*drafts, reflect=mend, budget=Budget(max_reflections=most))
        assert (played.result.text, played.result.turns) == (str(most), most + 1)
        assert played.result.usage["reflections"] == most
        assert [one["remark"] for one in played.diary.of("reflection")] == [
            f"Not {n}" for n in range(most)
        ]
        assert played.result.completed
    assert played.result.messages == [
        QUESTION,
        {"role": "assistant", "content": "0"},
        {"role": "user", "content": "Not 0"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Not 1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "Not 2"},
        {"role": "assistant", "content": "3"},
    ]


async def test_a_draft_that_is_good_is_the_answer() -> None:
    async def good(text: str, budget: "Any") -> None:
        await asyncio.sleep(0)

    played = await play(SHOUT, says("Good."), reflect=good, budget=Budget(max_reflections=3))
    assert (played.result.text, played.result.usage["reflections"]) == ("Good.", 1)


async def test_a_last_call_is_not_reflected_on() -> None:
    played = await play(says("1"), reflect=mend, budget=Budget(max_turns=3))
    assert (played.reason.kind, played.result.usage["reflections"]) == ("turn_limit", 2)
    assert played.result.messages[-1] == {"role": "assistant", "content": "1"}


async def test_a_reflection_that_fails_or_hangs_leaves_the_draft() -> None:
    async def hang(text: str, budget: "Any") -> None:
        await asyncio.sleep(0)
        fake.advance(20)
        await asyncio.Event().wait()

    def fail(text: str, budget: "Any") -> None:
        raise ValueError("Oops.")

    for reflect, kind, budget in (
        (hang, "timeout", Budget(timeout=0.02, last_call=None)),
        (fail, "failed", Budget()),
    ):
        fake, clock = stopped_clock()
        played = await play(says("Draft."), reflect=reflect, budget=budget, clock=clock)
        assert (played.reason.kind, played.result.text) == (kind, "Draft.")
        assert played.diary.kinds[-2:] == ["turn_completed", "stopped"]


def four(messages: "Any", tools: "Any") -> int:
    return 10 * len(messages)


async def test_a_conversation_that_is_too_long_is_compacted_and_goes_on_so() -> None:
    async def compact(messages: "Any") -> "Any":
        asked.append(len(messages))
        return [messages[0], {"role": "user", "content": "You shouted."}]

    asked: list[int] = []
    played = await play(
        SHOUT,
        SHOUT,
        says("Done."),
        budget=Budget(max_context_tokens=30),
        count_tokens=four,
        compact=compact,
        session_id="s1",
    )
    assert asked == [5]
    assert played.diary.of("compacted")[0] == {"before": 50, "after": 20}
    assert [len(sent) for sent in played.script.sent] == [1, 3, 2]
    assert played.result.messages[1]["content"] == "You shouted."
    assert played.result.state.context_was_compacted
    assert len(played.result.tool_results) == 2
    assert played.result.completed


async def test_a_conversation_that_fits_is_not_compacted() -> None:
    played = await play(
        SHOUT,
        says("Done."),
        budget=Budget(max_context_tokens=30),
        count_tokens=four,
        compact=lambda messages: [],
        session_id="s1",
    )
    assert not played.result.state.context_was_compacted
    assert (played.result.completed, len(played.result.messages)) == (True, 4)


async def test_a_conversation_that_stays_too_long_ends_the_run_as_it_was() -> None:
    played = await play(
        SHOUT,
        says("No."),
        budget=Budget(max_context_tokens=20),
        count_tokens=four,
        compact=lambda messages: messages + [QUESTION],
    )
    assert played.figures == ("context_limit", "context tokens", 40, 20, 0, "run")
    assert len(played.result.messages) == 3


async def test_a_compaction_that_fails_loses_nothing() -> None:
    def fail(messages: "Any") -> None:
        raise ValueError("Oops.")

    played = await play(
        SHOUT,
        says("No."),
        budget=Budget(max_context_tokens=20),
        count_tokens=four,
        compact=fail,
    )
    assert (played.reason.kind, len(played.result.messages)) == ("failed", 3)
    assert played.result.text == "What the tools returned:\n- shout: HI"


async def test_notices_count_as_part_of_a_prompt() -> None:
    played = await play(
        SHOUT,
        says("No."),
        budget=Budget(max_turns=3, max_context_tokens=30),
        count_tokens=four,
    )
    assert played.figures == ("context_limit", "context tokens", 40, 30, 0, "run")

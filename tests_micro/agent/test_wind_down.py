"""How a run is brought to its end in stages."""

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.tool import Tool
from budget_core.agent.wind_down import WindDown
from budget_core.notices import LAST_CALL
from tests_micro.script import SHOUT, USAGE, Played, play, prepare, says, shout
from tests_micro.support import raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ESSENTIAL = Tool("shout", "Says it loud.", shout, {"type": "object"}, essential=True)
OTHER = Tool("other", "Does nothing.", shout)
TWENTY = Budget(max_turns=21)  # one of them is kept back


async def twenty(**more: "Any") -> Played:
    """Play a run that calls a tool in each of its 20 turns, and in its final call answers."""
    more = dict({"budget": TWENTY, "tools": [ESSENTIAL, OTHER]}, **more)
    return await play(*[SHOUT] * 20, says("That is all."), **more)


def notices(played: Played) -> "dict[int, list[str]]":
    """Return the notices by the number of the call that they went out with."""
    found: dict[int, list[str]] = {}
    turn = 0
    for kind, fields in played.diary.events:
        if kind == "turn_started":
            turn = fields["turn"]
        elif kind == "notice":
            found.setdefault(turn, []).append(fields["text"])
    return found


async def test_a_run_goes_through_all_stages() -> None:
    played = await twenty()
    stages = [one["stage"] for one in played.diary.of("turn_started")]
    assert stages == ["normal"] * 18 + ["narrowed", "tools_off", "last_call"]
    both = ["shout", "other"]
    assert played.script.offered == [both] * 18 + [["shout"], None, None]
    told = notices(played)
    assert sorted(told) == [11, 17, 19, 20, 21]
    assert [len(told[turn]) for turn in sorted(told)] == [1, 1, 1, 1, 1]
    assert (
        "50% of your run budget is used (10 of 20 turns, and one reserved for the answer)"
        in told[11][0]
    )
    assert (
        "80% of your run budget is used (16 of 20 turns, and one reserved for the answer)"
        in told[17][0]
    )
    assert "Tool other is disabled" in told[19][0]
    assert "Tools are disabled" in told[20][0]
    assert told[21] == [LAST_CALL.replace("{reason}", str(played.reason))]
    assert played.statuses == ["completed"] * 19 + ["denied"]


async def test_notices_go_last_in_one_call_and_into_no_conversation() -> None:
    played = await twenty()
    for turn, texts in notices(played).items():
        sent = played.script.sent[turn - 1]
        assert [message["content"] for message in sent[-len(texts) :]] == texts
        assert sent[-1]["role"] == "user"
        assert [m for m in sent if m["role"] == "user"][1:] == sent[-len(texts) :]
    assert [m["role"] for m in played.result.messages].count("user") == 1


async def test_without_essential_tools_all_go_at_once() -> None:
    played = await twenty(tools=[Tool("shout", "", shout, {"type": "object"}), OTHER])
    assert played.script.offered == [["shout", "other"]] * 19 + [None, None]


async def test_where_all_tools_are_essential_none_goes_before_the_others() -> None:
    played = await twenty(tools=[ESSENTIAL])
    assert played.script.offered == [["shout"]] * 19 + [None, None]
    assert sorted(notices(played)) == [11, 17, 20, 21]


async def test_a_run_without_tools_has_none_to_lose() -> None:
    played = await twenty(tools=[], reflect=lambda text, budget: "Mend it.")
    stages = [one["stage"] for one in played.diary.of("turn_started")]
    assert stages == ["normal"] * 20 + ["last_call"]


async def test_where_no_tool_calls_are_allowed_no_tools_are_offered() -> None:
    played = await play(says("Hi."), budget=Budget(max_tool_calls=0))
    assert (played.script.offered, played.result.completed) == ([None], True)


async def test_stages_that_are_off_do_not_come() -> None:
    config = WindDown(notice_at=(), narrow_at=None, tools_off_at=None)
    played = await twenty(wind_down=config)
    assert played.script.offered == [["shout", "other"]] * 20 + [None]
    assert sorted(notices(played)) == [21]


async def test_thresholds_and_texts_are_the_callers() -> None:
    config = WindDown(
        notice_at=(0.25,),
        narrow_at=0.5,
        tools_off_at=0.75,
        notice_template="{pct} {used}/{cap} {unit} {scope}",
        tools_template="{disallow_clause} {pct} {x:>9}",
        last_call_template="Why: {reason}",
    )
    played = await twenty(wind_down=config)
    told = notices(played)
    assert told[6] == ["25 5/20 turns run"]
    assert told[11] == ["Tool other is disabled 50 {x:>9}"]
    assert told[16] == ["Tools are disabled 75 {x:>9}"]
    assert told[21] == [f"Why: {played.reason}"]
    assert len(played.script.offered[9]) == 2
    assert (played.script.offered[10], played.script.offered[15]) == (["shout"], None)


async def test_several_thresholds_crossed_at_once_are_one_notice() -> None:
    played = await play(SHOUT, says("Done."), budget=Budget(max_tokens=121, last_call=0))
    (told,) = notices(played)[2]
    assert "82% of your run budget is used (100 of 121 tokens)" in told


async def test_a_notice_and_tools_that_are_off_are_told_in_one_call() -> None:
    played = await play(SHOUT, says("Done."), budget=Budget(max_tokens=105, last_call=0))
    first, second = notices(played)[2]
    assert first.startswith("[Budget notice] 95%")
    assert "Tools are disabled" in second
    assert [m["content"] for m in played.script.sent[1][-2:]] == [first, second]


async def test_the_axis_nearest_to_its_end_counts() -> None:
    fake, clock = stopped_clock()
    slow = Tool("shout", "", lambda text: fake.advance(5_000))
    for budget, unit in (
        (Budget(max_turns=9, timeout=10), "ms"),
        (Budget(max_turns=9, timeout=100, max_tool_calls=2), "tool calls"),
        (Budget(max_turns=3, timeout=100), "turns"),
    ):
        played = await play(
            SHOUT, says("Done."), tools=[slow], budget=budget, clock=clock, messages="?"
        )
        assert f" {unit}" in notices(played)[2][0], unit


async def test_a_parents_budget_brings_a_child_to_its_end_too() -> None:
    parent = Budget(max_turns=4)
    played = await play(SHOUT, says("Done."), budget=_child(parent))
    assert (
        "66% of your run budget is used (2 of 3 turns, and one reserved for the answer)"
        in notices(played)[2][0]
    )


def _child(budget: Budget) -> "Any":
    parent = Envelope.open(budget)
    parent.turns.charge(1)
    return parent.child(name="helper")


async def test_a_notice_is_told_once_also_where_a_limit_is_raised_meanwhile() -> None:
    def extend(asked: "Any") -> "Any":
        played.run.budget.extend(max_turns=1)
        return SHOUT

    played = prepare(SHOUT, extend, SHOUT, says("Done."), budget=Budget(max_turns=4))
    await played.run.finish()
    assert sorted(notices(played)) == [3]


async def test_no_last_call_is_made_where_nothing_is_kept_for_it() -> None:
    played = await play(SHOUT, budget=Budget(max_turns=3, last_call=None))
    assert len(played.script.sent) == 3
    assert "last_call" not in [one["stage"] for one in played.diary.of("turn_started")]


async def test_a_last_call_without_a_part_of_time_and_tokens_still_has_its_turn() -> None:
    budget = Budget(max_turns=2, max_tokens=1_000, last_call=0)
    played = await play(SHOUT, says("All."), budget=budget)
    assert (played.result.text, played.result.turns) == ("All.", 2)
    assert played.script.limits == [1_000, 1_000 - USAGE["total_tokens"]]


async def test_a_wind_down_is_refused_for_what_is_wrong_with_it() -> None:
    for more in (
        {"notice_at": (1.5,)},
        {"narrow_at": -1},
        {"tools_off_at": 2},
        {"notice_template": 5},
        {"tools_template": ""},
        {"last_call_template": b""},
    ):
        arguments: Any = more
        error = str(raises(ValueError, WindDown, **arguments))
        assert next(iter(more)) in error, error

"""One `Budget` in exoclaw's loop: every limit ends it with its work, sub-agents share it."""

from typing import Any

import pytest
from exoclaw.iteration_policy import IterationPolicy
from exoclaw.providers.protocol import LLMProvider

from budget_cpython import Budget, ExoclawBudget

from .play import Played
from .scenarios.parts import ScriptedProvider

LAST = "[Budget exhausted] "
FOUND = "\nWhat the tools returned:\n- look: look: nothing on the shelf"


@pytest.fixture
def scripted() -> LLMProvider:
    """Return a provider that is never asked."""
    return ScriptedProvider("Never said.")


def test_it_is_a_provider_and_a_policy(scripted: LLMProvider) -> None:
    adapter = ExoclawBudget(scripted, Budget(max_turns=3))
    provider: LLMProvider = adapter
    policy: IterationPolicy = adapter
    assert isinstance(provider, LLMProvider)
    assert isinstance(policy, IterationPolicy)


def test_the_last_turn_brings_the_work_home(played: Played) -> None:
    saw = played["budget_of_turns"]
    assert saw["tools"] == [["look", "search"], ["look", "search"], None]
    assert saw["sent"][2][-1].startswith(f"user: {LAST}turn limit: 2 of 2 turns, and one reserved")
    assert saw["reply"] == "An empty shelf, as far as I saw."
    assert (saw["kind"], saw["turns"]) == ("turn_limit", 3)


def test_notices_are_not_persisted(played: Played) -> None:
    assert played["budget_of_turns"]["history"] == [
        "user: What is on the shelf?",
        *["assistant: None", "tool: look: nothing on the shelf"] * 2,
        "assistant: An empty shelf, as far as I saw.",
    ]


def test_tool_calls_of_a_batch_beyond_the_cap_are_not_made(played: Played) -> None:
    saw = played["budget_of_tool_calls"]
    assert [line for line in saw["history"] if line.startswith("tool")] == [
        "tool: look: nothing on the shelf",
        "tool: search: nothing on the shelf",
    ]
    assert (saw["reply"], saw["kind"], saw["tool_calls"]) == ("Two looks.", "tool_call_limit", 2)
    assert saw["tools"] == [["look", "search"], None]


def test_time_that_a_tool_overran_leaves_what_the_tools_found(played: Played) -> None:
    saw = played["budget_of_time_overrun"]
    assert saw["reply"].startswith("[Stopped: timeout: 10500 of 10000 ms")
    assert saw["reply"].endswith(FOUND)
    assert saw["history"][-1] == f"assistant: {saw['reply']}"
    assert saw["turns"] == 1


def test_a_day_inside_goes_on_from_turn_to_turn_and_ends_the_run(played: Played) -> None:
    saw = played["budget_around_a_day"]
    assert saw["replies"] == ["One.", "[cutoff] 100% of the daily: 300/300 tokens"]
    assert (saw["daily_tokens"], saw["calls"]) == (300, 3)
    assert (saw["first"]["kind"], saw["second"]["kind"]) == (None, "cut_off")
    assert saw["second"]["scope"] == "daily"


def test_a_second_turn_begins_with_a_whole_budget(played: Played) -> None:
    (first, spent), (second, again) = (
        played["budget_of_each_turn"][turn] for turn in ("first", "second")
    )
    assert (first, spent["turns"], spent["tokens"]) == ("One.", 2, 200)
    assert (second, again["turns"], again["tokens"], again["kind"]) == ("Two.", 3, 300, None)


def test_a_prompt_too_long_is_exoclaws_to_mend(played: Played) -> None:
    saw = played["budget_of_an_overflow"]
    assert (saw["reply"], saw["recoveries"], saw["kind"]) == ("Nothing there.", 1, None)
    assert (saw["turns"], saw["tokens"], saw["models"]) == (3, 200, ["primary"] * 3)


def test_words_are_streamed_up_to_the_last_call(played: Played) -> None:
    saw = played["budget_of_a_stream"]
    words = ["Let", "me", "look.", ["end", False], "Nothing", "there.", ["end", True]]
    assert saw["deltas"] == words
    assert (saw["reply"], saw["kind"], saw["tokens"]) == ("Nothing there.", "turn_limit", 200)


@pytest.mark.parametrize(
    ("scenario", "axis", "cap"),
    [
        ("budget_of_a_team", "turns", 8),
        ("budget_of_a_teams_tokens", "tokens", 700),
    ],
)
def test_sub_agents_at_the_same_time_spend_what_their_parent_has(
    played: Played, scenario: str, axis: str, cap: int
) -> None:
    saw = played[scenario]
    children: list[dict[str, Any]] = saw["children"]
    assert saw[axis] == cap
    assert sum(child["turns"] for child in children) == saw["turns"] - 2
    assert saw["calls"] == saw["turns"]
    assert saw["reply"] == "They looked."
    assert all(child["kind"] is not None for child in children)


def test_sub_agents_call_at_the_same_time_where_there_is_room(played: Played) -> None:
    assert played["budget_of_a_team"]["most"] == 2
    assert played["budget_of_a_teams_tokens"]["most"] == 1


def test_a_stopped_sub_agent_hands_its_parent_what_it_found(played: Played) -> None:
    (line,) = [line for line in played["budget_of_a_team"]["sent"] if line.startswith("tool: ")]
    assert (
        line.count("[Stopped: turn limit: 7 of 7 turns, and one reserved for the answer]" + FOUND)
        == 2
    )


def test_sub_agents_follow_their_parent_into_its_next_turn(played: Played) -> None:
    saw = played["budget_of_a_team_with_limits_of_their_own"]
    for turn, reply in (("first", "They looked."), ("second", "They looked again.")):
        assert saw[turn]["reply"] == reply
        assert [child["turns"] for child in saw[turn]["children"]] == [3, 3]
        assert (saw[turn]["turns"], saw[turn]["calls"], saw[turn]["kind"]) == (8, 8, None)

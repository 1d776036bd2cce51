"""Warnings, tools withdrawn, and the four ways in which a budget ends."""

from .play import Played


def test_a_warning_is_the_last_message_of_one_call_only(played: Played) -> None:
    sent = played["warned"]["sent"]
    warning = "user: [warning] 50% of the turn: 2/4 iterations"
    assert [call[-1] for call in sent] == [
        "user: What is on the shelf?",
        "tool: look: nothing on the shelf",
        warning,
        "tool: look: nothing on the shelf",
    ]
    assert [call.count(warning) for call in sent] == [0, 0, 1, 0]


def test_a_warning_is_not_persisted(played: Played) -> None:
    assert played["warned"]["history"] == [
        "user: What is on the shelf?",
        *["assistant: None", "tool: look: nothing on the shelf"] * 3,
        "assistant: Nothing there.",
    ]


def test_a_warning_leaves_the_loops_own_list_alone(played: Played) -> None:
    assert [len(messages) for messages in played["warned"]["given"]] == [2, 4, 6, 8]
    assert not any("[warning]" in line for call in played["warned"]["given"] for line in call)


def test_the_answer_of_the_last_allowed_call_is_kept(played: Played) -> None:
    assert played["warned"]["reply"] == "Nothing there."
    assert played["warned"]["iterations"] == 4


def test_listed_tools_are_stripped_and_the_others_stay(played: Played) -> None:
    saw = played["listed_tools_stripped"]
    assert saw["tools"] == [["look", "search"], ["look", "search"], ["look"]]
    assert saw["sent"][2][-1] == "user: [stripped] Tool search is disabled"


def test_the_wrapper_cuts_off_without_calling_the_model(played: Played) -> None:
    saw = played["cut_off_by_the_wrapper"]
    assert saw["reply"] == "[cutoff] 100% of the turn: 2/2 iterations"
    assert saw["history"][-1] == f"assistant: {saw['reply']}"
    assert len(saw["sent"]) == saw["iterations"] == 2


def test_the_policy_ends_a_turn_that_is_spent(played: Played) -> None:
    saw = played["cut_off_by_the_policy"]
    assert saw["reply"] == "[cutoff] 120% of the turn: 300/250 tokens"
    assert len(saw["sent"]) == 3


def test_the_work_of_a_turn_that_is_cut_off_is_persisted(played: Played) -> None:
    for scenario in ("cut_off_by_the_wrapper", "cut_off_by_the_policy"):
        assert "tool: look: nothing on the shelf" in played[scenario]["history"]


def test_fallback_demotes_the_rest_of_the_turn_to_the_cheaper_model(played: Played) -> None:
    assert played["demoted"]["models"] == ["primary", "primary", "cheap", "cheap"]
    assert played["demoted"]["reply"] == "Nothing there."


def test_tokens_of_the_cheaper_model_leave_the_daily_pool_alone(played: Played) -> None:
    assert played["demoted"]["daily_tokens"] == 200
    assert played["demoted"]["turn_tokens"] == 400

"""The loop and the budgets around our chat client, over a real socket."""

from typing import Any

from .play import Played

CLEAR = {"invalid": 0, "missing": 0}
NOTICE = {"role": "user", "content": "[Budget notice] 4/8 iterations"}


def asked(played: Played, question: str) -> list[list[Any]]:
    """Return the messages of each request of the turn with that question, in order."""
    user = {"role": "user", "content": question}
    return [request["messages"] for request in played.requests if user in request["messages"]]


def test_a_warning_goes_over_the_wire_last_and_once(played: Played) -> None:
    sent = asked(played, "What do the files say?")[:5]
    assert [messages.count(NOTICE) for messages in sent] == [0, 0, 0, 0, 1]
    assert sent[4][-1] == NOTICE


def test_a_model_that_heeds_the_warning_winds_down_within_its_budget(played: Played) -> None:
    saw = played["wound_down"]
    assert "I read 3 of 3 files." in saw["reply"]
    assert "because of the budget notice" in saw["reply"]
    assert saw["history"][-1] == f"assistant: {saw['reply']}"
    assert saw["iterations"] == 5


def test_the_usage_that_an_endpoint_reports_is_counted_by_both_wrappers(played: Played) -> None:
    for scenario in ("wound_down", "wound_down_as_a_stream"):
        saw = played[scenario]
        assert saw["turn_tokens"] == saw["daily_tokens"] > 0
        assert saw["unclear"] == CLEAR


def test_a_streamed_turn_winds_down_and_its_deltas_add_up_to_the_answer(played: Played) -> None:
    saw = played["wound_down_as_a_stream"]
    assert saw["deltas"].count(["end", False]) == 4
    assert saw["deltas"][-1] == ["end", True]
    last = len(saw["deltas"]) - saw["deltas"][::-1].index(["end", False])
    assert "".join(saw["deltas"][last:-1]) == saw["reply"]
    assert "because of the budget notice" in saw["reply"]


def test_a_streamed_turn_is_asked_of_the_endpoint_as_a_stream(played: Played) -> None:
    user = {"role": "user", "content": "What do the streamed files say?"}
    requests = [request for request in played.requests if user in request["messages"]]
    assert [request["stream"] for request in requests] == [True] * 5
    assert requests[4]["messages"][-1] == NOTICE


def test_arguments_that_are_no_object_come_back_to_the_model_as_an_error(played: Played) -> None:
    saw = played["malformed"]
    assert saw["history"][2].startswith("tool: Error executing list_files:")
    assert saw["reply"] == "[cutoff] 100% of the turn: 2/2 iterations"


def test_a_prompt_too_long_for_the_model_is_shortened_and_sent_again(played: Played) -> None:
    saw = played["overflown_in_a_budget"]
    assert (saw["reply"], saw["recoveries"]) == ('You said: "Anything?".', 1)
    assert (saw["usage"]["turns"], saw["usage"]["estimated"]) == (2, 0)


def test_it_is_shortened_too_where_wrappers_keep_the_budget(played: Played, runtime: str) -> None:
    saw = played["overflown_in_wrappers"]
    if runtime == "cpython":
        assert (saw["reply"], saw["recoveries"]) == ('You said: "Anything?".', 1)
    else:
        assert saw["status"] == 400

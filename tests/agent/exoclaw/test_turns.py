"""Whole turns: several, streamed ones, failures, sub-agents, policies, the bus."""

from .play import Played

CLEAR = {"invalid": 0, "missing": 0}
ONE_MISSING = {"invalid": 0, "missing": 1}


def test_each_turn_begins_with_a_whole_budget(played: Played) -> None:
    (first, spent), (second, counted) = (played["two_turns"][turn] for turn in ("first", "second"))
    assert (first, spent["iterations"], spent["turn_tokens"]) == ("One.", 3, 300)
    assert (second, counted["iterations"], counted["turn_tokens"]) == ("Two.", 2, 200)


def test_the_days_total_goes_on_from_turn_to_turn(played: Played) -> None:
    assert [played["two_turns"][turn][1]["daily_tokens"] for turn in ("first", "second")] == [
        300,
        500,
    ]


def test_deltas_come_through_both_wrappers_as_they_are_said(played: Played) -> None:
    saw = played["streamed"]
    words = ["Let", "me", "look.", ["end", False], "Nothing", "there.", ["end", True]]
    assert saw["deltas"] == words
    assert saw["reply"] == "Nothing there."


def test_a_streamed_turn_is_counted_by_both_wrappers(played: Played) -> None:
    saw = played["streamed"]
    assert (saw["iterations"], saw["turn_tokens"], saw["daily_tokens"]) == (2, 200, 200)
    assert saw["unclear"] == CLEAR


def test_a_provider_that_cannot_stream_is_not_asked_to(played: Played) -> None:
    saw = played["asked_to_stream_without_being_able"]
    assert (saw["reply"], saw["deltas"], saw["iterations"]) == ("Nothing there.", [], 2)


def test_a_call_that_overflows_counts_and_the_loop_recovers(played: Played) -> None:
    saw = played["overflowed"]
    assert (saw["reply"], saw["recoveries"]) == ("Nothing there.", 1)
    assert (saw["iterations"], saw["turn_tokens"], saw["unclear"]) == (3, 200, ONE_MISSING)


def test_a_sub_agent_that_shares_the_budget_does_not_reset_it(played: Played) -> None:
    saw = played["delegated"]
    assert saw["reply"] == "They saw nothing."
    assert saw["sent"][4][-1] == "tool: Empty shelf."
    assert (saw["iterations"], saw["turn_tokens"], saw["daily_tokens"]) == (5, 500, 500)


def test_a_sub_agent_that_spends_the_budget_ends_itself_and_its_parent(played: Played) -> None:
    saw = played["delegated_past_the_limit"]
    assert saw["reply"] == "[cutoff] 100% of the turn: 3/3 iterations"
    assert len(saw["sent"]) == saw["iterations"] == 3


def test_the_policy_that_refuses_speaks(played: Played) -> None:
    assert played["composed"]["replies"] == [
        "1 steps are enough.",
        "[cutoff] 100% of the turn: 2/2 iterations",
    ]


def test_the_budget_sees_the_turns_start_that_another_policy_refuses(played: Played) -> None:
    saw = played["composed_and_refused_at_the_start"]
    assert saw["replies"] == ["[cutoff] 100% of the turn: 2/2 iterations", "0 steps are enough."]
    assert (saw["iterations"], saw["daily_tokens"]) == (0, 200)


def test_a_loop_on_the_bus_goes_on_after_a_call_that_failed(played: Played) -> None:
    saw = played["over_the_bus"]
    assert saw["replies"] == ["Sorry, I encountered an error.", "Nothing there."]
    assert (saw["iterations"], saw["daily_tokens"]) == (2, 200)


def test_the_program_ends_well_and_complains_of_nothing(played: Played) -> None:
    assert (played.exit_code, played.complaints) == (0, "")

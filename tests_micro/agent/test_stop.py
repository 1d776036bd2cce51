"""When a run is to end, and why."""

from budget_core import Budget, BudgetError, Envelope, StopReason, StopRequested
from budget_core.agent.no_progress import NoProgress, turn_print
from budget_core.agent.stop import in_words
from budget_core.agent.stop_condition import (
    AllOf,
    AnyOf,
    MaxCost,
    MaxIterations,
    MaxTokens,
    MaxToolCalls,
    StopCondition,
    Timeout,
)
from tests_micro.support import NO_COUNTS, raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Fires(StopCondition):
    """Fires as often as it is told to, and counts what is done to it."""

    def __init__(self, kind: str, *answers: bool) -> None:
        self.kind = kind
        self.answers = list(answers)
        self.asked = self.begun = 0

    def check(self, seen: "Envelope") -> StopReason | None:
        """Answer."""
        self.asked += 1
        return StopReason(self.kind, scope=seen.name) if self.answers.pop(0) else None

    def reset(self) -> None:
        """Count it."""
        self.begun += 1


class Mute(Exception):  # noqa: N818 - a test's
    """An error that refuses to be text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def unlimited() -> Envelope:
    return Envelope.open(Budget(), stopped_clock()[1])


def figures(reason: StopReason | None) -> "tuple[Any, ...]":
    assert reason is not None
    return reason.kind, reason.axis, reason.used, reason.limit, reason.kept, reason.scope


def test_iterations_end_a_run_when_that_many_are_made() -> None:
    seen = unlimited()
    condition = MaxIterations(2)
    seen.turns.charge(1)
    assert condition.check(seen) is None
    seen.turns.charge(1)
    assert figures(condition.check(seen)) == ("turn_limit", "turns", 2, 2, 0, "run")


def test_tokens_end_a_run_when_that_many_are_used() -> None:
    seen = unlimited()
    seen.tokens.charge(99)
    assert MaxTokens(100).check(seen) is None
    seen.tokens.charge(51)
    assert figures(MaxTokens(100).check(seen)) == ("token_budget", "tokens", 150, 100, 0, "run")


def test_money_ends_a_run_when_so_much_is_spent() -> None:
    seen = unlimited()
    seen.nano_usd.charge(9)
    most = MaxCost("0.00000001")
    assert most.check(seen) is None
    seen.nano_usd.charge(1)
    assert figures(most.check(seen)) == ("cost_limit", "nano_usd", 10, 10, 0, "run")


def test_a_run_may_use_all_its_tool_calls_and_ends_when_it_asks_for_one_more() -> None:
    seen = Envelope.open(Budget(max_tool_calls=2), stopped_clock()[1])
    condition = MaxToolCalls(2)
    assert seen.claim_tool_call()
    assert seen.claim_tool_call()
    assert condition.check(seen) is None
    assert not seen.claim_tool_call()
    assert figures(condition.check(seen)) == ("tool_call_limit", "tool calls", 3, 2, 0, "run")


def test_time_ends_a_run_at_the_very_instant_and_pauses_do_not_count() -> None:
    fake, clock = stopped_clock()
    seen = Envelope.open(Budget(), clock)
    assert Timeout(1.5).check(seen) is None
    fake.advance(1499)
    assert Timeout(1.5).check(seen) is None
    with seen.paused():
        fake.advance(60_000)
        assert Timeout(1.5).check(seen) is None
    assert Timeout(1.5).check(seen) is None
    fake.advance(1)
    assert figures(Timeout(1.5).check(seen)) == ("timeout", "ms", 1500, 1500, 0, "run")


def test_an_infinite_timeout_never_ends_a_run() -> None:
    fake, clock = stopped_clock()
    seen = Envelope.open(Budget(), clock)
    fake.advance(1 << 50)
    assert Timeout(float("inf")).check(seen) is None


def test_nothing_allowed_ends_a_run_before_it_begins() -> None:
    for condition in (MaxIterations(0), MaxTokens(0), MaxCost(0), Timeout(0)):
        assert condition.check(unlimited()) is not None, condition.AXIS
    assert MaxToolCalls(0).check(unlimited()) is None


def test_limits_are_checked_when_built() -> None:
    for kind in (MaxIterations, MaxTokens, MaxToolCalls):
        for bad in NO_COUNTS:
            assert "limit" in str(raises(ValueError, kind, bad)), (kind, bad)
    for bad in (-1, float("nan"), "six", True, None):
        assert "usd" in str(raises(ValueError, MaxCost, bad)), bad
    for bad in (-1, float("nan"), "6", True, None):
        assert "seconds" in str(raises(ValueError, Timeout, bad)), bad
    for bad in NO_COUNTS:
        assert "window" in str(raises(ValueError, NoProgress, bad)), bad


def test_any_of_fires_for_the_first_that_does_and_asks_no_further() -> None:
    first, second, third = Fires("one", False), Fires("two", True), Fires("three", True)
    reason = AnyOf(first, second, third).check(unlimited())
    assert reason is not None
    assert reason.kind == "two"
    assert (first.asked, second.asked, third.asked) == (1, 1, 0)
    assert AnyOf(Fires("one", False), Fires("two", False)).check(unlimited()) is None
    assert AnyOf().check(unlimited()) is None


def test_all_of_fires_when_each_does_and_has_all_their_reasons() -> None:
    first, second = Fires("one", True, False, True), Fires("two", False, True, True)
    both = AllOf(first, second)
    assert both.check(unlimited()) is None
    assert both.check(unlimited()) is None
    reason = both.check(unlimited())
    assert reason is not None
    assert (reason.kind, reason.reason) == ("one", "one and two")
    assert [cause.kind for cause in reason.causes] == ["one", "two"]
    assert (first.asked, second.asked) == (3, 3)
    assert AllOf().check(unlimited()) is None


def test_conditions_are_joined_by_or_and_by_and() -> None:
    one, two, three = Fires("one", False), Fires("two", True), Fires("three", True)
    joined = one | two & three
    assert type(joined) is AnyOf
    reason = joined.check(unlimited())
    assert reason is not None
    assert [cause.kind for cause in reason.causes] == ["two", "three"]
    both = (Fires("one", True) | Fires("two", False)) & Fires("three", False)
    assert type(both) is AllOf
    assert both.check(unlimited()) is None


def test_a_reset_reaches_every_condition() -> None:
    one, two, three = Fires("one"), Fires("two"), Fires("three")
    (one | two & three).reset()
    assert (one.begun, two.begun, three.begun) == (1, 1, 1)
    StopCondition().reset()
    assert StopCondition().check(unlimited()) is None


def test_real_limits_join_and_say_which_fired() -> None:
    seen = unlimited()
    either, both = MaxIterations(1) | MaxTokens(50), MaxIterations(1) & MaxTokens(50)
    seen.tokens.charge(60)
    assert figures(either.check(seen))[0] == "token_budget"
    assert both.check(seen) is None
    seen.turns.charge()
    assert figures(either.check(seen))[0] == "turn_limit"
    reason = both.check(seen)
    text = "turn limit: 1 of 1 turns and token budget: 60 of 50 tokens"
    assert str(reason) == text


def after(condition: "StopCondition", seen: "Envelope", *said: int) -> None:
    """Let a condition look at turns that said so."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
    for number in said:
        condition.note(messages, seen)
        messages.append({"role": "assistant", "content": f"Turn {number}."})
    condition.note(messages, seen)


def stuck(window: int, *said: int) -> bool:
    condition, seen = NoProgress(window), unlimited()
    after(condition, seen, *said)
    reason = condition.check(seen)
    assert reason is None or figures(reason)[0] == "no_progress"
    return reason is not None


def test_no_progress_is_when_each_of_the_last_turns_repeats_an_earlier_one() -> None:
    assert stuck(3, 7, 7, 7, 7)
    assert not stuck(3, 7, 7, 7)
    assert stuck(2, 7, 7, 7)
    assert stuck(1, 7, 7)
    assert not stuck(1, 7)
    assert not stuck(1)
    assert not stuck(3, 1, 2, 3, 4, 5)


def test_a_circle_of_several_turns_is_no_progress() -> None:
    assert stuck(3, 1, 2, 3, 1, 2, 3)
    assert not stuck(3, 1, 2, 3, 1, 2)
    assert stuck(3, 9, 8, 1, 2, 1, 2, 1)
    assert stuck(3, 1, 2, 3, 4, 2, 2, 4)


def test_one_new_turn_among_the_last_is_progress() -> None:
    assert not stuck(3, 1, 1, 1, 2)
    assert not stuck(3, 1, 1, 1, 2, 1)
    assert not stuck(3, 1, 1, 1, 2, 1, 1)
    assert stuck(3, 1, 1, 1, 2, 1, 1, 1)


def test_a_window_of_zero_is_one_of_one() -> None:
    assert stuck(0, 7, 7)
    assert not stuck(0, 7)
    assert not stuck(0, 7, 8)


def test_no_progress_tells_its_window_and_whose_it_is() -> None:
    seen = unlimited().child(name="scout")
    text = "no progress (scout): the last 2 turns repeated earlier ones"
    condition = NoProgress(2)
    after(condition, seen, 1, 1, 1)
    assert str(condition.check(seen)) == text


def test_a_condition_may_serve_many_runs_at_once() -> None:
    condition, one, two = NoProgress(1), unlimited(), unlimited()
    after(condition, one, 1)
    after(condition, two, 1)
    assert (condition.check(one), condition.check(two)) == (None, None)
    after(condition, two, 1)
    assert condition.check(one) is None
    assert condition.check(two) is not None


def test_texts_that_differ_anywhere_are_different_turns() -> None:
    texts = ["page " + str(n) for n in [1_662, 3_000] + list(range(200))]
    texts += ["x" * 300 + end for end in ("a", "b", "")]
    prints = {turn_print([{"role": "assistant", "content": text}]) for text in texts}
    assert len(prints) == len(texts)


def test_a_condition_joined_with_others_sees_the_conversation() -> None:
    inner = NoProgress(1)
    both = MaxIterations(9) | (inner & MaxIterations(0))
    seen = unlimited()
    for _ in range(2):
        both.note([{"role": "assistant", "content": "Again."}], seen)
    assert figures(both.check(seen))[0] == "no_progress"
    assert both.check(unlimited()) is None


def test_a_reason_tells_its_figures_and_its_scope() -> None:
    assert str(StopReason(StopReason.CANCELLED)) == "cancelled"
    assert str(StopReason(StopReason.EXPLICIT_STOP, "done")) == "explicit stop: done"
    reason = StopReason("timeout", "", "ms", 5, 4, scope="scout")
    assert str(reason) == "timeout: 5 of 4 ms (scout)"
    assert repr(reason) == "<StopReason: timeout: 5 of 4 ms (scout)>"
    zero = StopReason("turn_limit", "", "turns", 0, 0)
    assert str(zero) == "turn limit: 0 of 0 turns"


def test_a_requested_stop_is_a_budget_error_with_its_reason() -> None:
    error = StopRequested("approved by nobody")
    assert isinstance(error, BudgetError)
    assert error.reason == str(error) == "approved by nobody"


def test_an_error_that_is_no_text_is_told_by_its_type() -> None:
    assert in_words(ValueError("no")) == "ValueError: no"
    assert in_words(Mute()) == "Mute"

"""What a turn has used, and when it warns, strips tools and stops."""

from budget_core import TurnBudgetConfig, TurnBudgetTracker
from budget_core.tracker import BudgetTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def tokens(count: int) -> "dict[str, int]":
    return {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}


def tracker_at(iterations: int, used: int = 0, **config: "Any") -> "Any":
    """Return a tracker that has seen so many calls, which used so many tokens in all."""
    tracker = TurnBudgetTracker(TurnBudgetConfig(**config))
    for call in range(iterations):
        tracker.record(tokens(0 if call else used))
    return tracker


def warnings_of(tracker: "Any", calls: int) -> "list[tuple[int, float]]":
    """Return (iteration, threshold) for each warning while so many calls are made."""
    told = []
    for _ in range(calls):
        tracker.record(tokens(0))
        if tracker.consume_threshold_warning():
            told.append((tracker.iterations_seen, tracker.last_consumed_threshold))
    return told


def test_a_new_turn_has_used_nothing() -> None:
    tracker = TurnBudgetTracker()
    assert (tracker.total_tokens, tracker.iterations_seen) == (0, 0)
    assert tracker.utilization() == 0
    assert not tracker.is_at_limit()
    assert tracker.consume_threshold_warning() is None
    assert tracker.last_consumed_threshold is None


def test_a_turn_tracker_is_a_budget_tracker_of_scope_turn() -> None:
    tracker = TurnBudgetTracker()
    assert isinstance(tracker, BudgetTracker)
    assert tracker.SCOPE == "turn"


def test_a_tracker_keeps_the_config_it_was_given() -> None:
    config = TurnBudgetConfig(iteration_budget=3)
    assert TurnBudgetTracker(config).config is config
    assert TurnBudgetTracker().config.__dict__ == TurnBudgetConfig().__dict__


def test_each_call_counts_one_iteration_and_its_tokens() -> None:
    tracker = tracker_at(0)
    for _ in range(3):
        tracker.record(tokens(7))
    assert (tracker.iterations_seen, tracker.total_tokens) == (3, 21)


def test_calls_are_recorded_past_the_cap() -> None:
    tracker = tracker_at(5, 500, iteration_budget=2, token_budget=100)
    assert (tracker.iterations_seen, tracker.total_tokens) == (5, 500)
    assert tracker.utilization() == 5


def test_the_axis_nearer_to_exhaustion_speaks() -> None:
    for iterations, used, axis in (
        (4, 0, (4, 10, "iterations")),
        (4, 399, (4, 10, "iterations")),
        (4, 400, (4, 10, "iterations")),
        (4, 401, (401, 1000, "tokens")),
        (1, 2000, (2000, 1000, "tokens")),
    ):
        tracker = tracker_at(iterations, used, iteration_budget=10, token_budget=1000)
        assert tracker.dominant_axis() == axis, (iterations, used)


def test_an_axis_without_a_cap_never_speaks_beside_one_with_a_cap() -> None:
    tracker = tracker_at(4, 0, iteration_budget=None, token_budget=1000)
    assert tracker.dominant_axis() == (0, 1000, "tokens")
    tracker = tracker_at(0, 0, iteration_budget=10, token_budget=None)
    tracker.record(tokens(10**9))
    assert tracker.dominant_axis() == (1, 10, "iterations")


def test_utilization_is_the_share_of_the_nearer_axis() -> None:
    assert tracker_at(4, 100, iteration_budget=10, token_budget=1000).utilization() == 0.4
    assert tracker_at(1, 750, iteration_budget=10, token_budget=1000).utilization() == 0.75


def test_the_limit_is_reached_at_the_cap_of_either_axis() -> None:
    for iterations, used, at_limit in ((9, 999, False), (10, 0, True), (1, 1000, True)):
        tracker = tracker_at(iterations, used, iteration_budget=10, token_budget=1000)
        assert tracker.is_at_limit() is at_limit, (iterations, used)


def test_a_cap_of_zero_is_nothing() -> None:
    for caps in ((0, 5), (5, 0), (0, 0), (0, None), (None, 0)):
        tracker = tracker_at(0, iteration_budget=caps[0], token_budget=caps[1])
        assert tracker.is_at_limit(), caps
        assert tracker.utilization() == 1, caps


def test_a_turn_without_caps_is_never_used_up() -> None:
    tracker = tracker_at(3, 10**9, iteration_budget=None, token_budget=None)
    assert not tracker.is_at_limit()
    assert tracker.utilization() == 0
    assert tracker.consume_threshold_warning() is None
    assert tracker.consume_threshold_warning(force=True) is None
    assert tracker.consume_at_limit_warning() is None
    assert tracker.dominant_axis()[1] is None


def test_an_unlimited_axis_stays_unlimited_whatever_is_reported() -> None:
    tracker = tracker_at(0, iteration_budget=None, token_budget=None, model_weights={"m": 1e6})
    for _ in range(5):
        tracker.record(tokens(1 << 40), "m")
    assert not tracker.is_at_limit()


def test_a_threshold_fires_once_when_it_is_reached() -> None:
    tracker = tracker_at(0, iteration_budget=10, warning_thresholds=(0.5, 0.8))
    assert warnings_of(tracker, 9) == [(5, 0.5), (8, 0.8)]


def test_every_share_of_a_hundred_fires_at_its_own_iteration_with_its_own_percentage() -> None:
    for share in range(1, 100):
        tracker = tracker_at(
            share - 1,
            iteration_budget=100,
            token_budget=None,
            warning_thresholds=(share / 100,),
            warning_template="{pct}",
        )
        assert tracker.consume_threshold_warning() is None, share
        tracker.record(None)
        assert tracker.consume_threshold_warning() == str(share), share


def test_thresholds_need_no_order() -> None:
    tracker = tracker_at(0, iteration_budget=10, warning_thresholds=(0.9, 0.5, 0.8, 0.5))
    assert warnings_of(tracker, 9) == [(5, 0.5), (8, 0.8), (9, 0.9)]


def test_of_several_crossed_at_once_the_highest_speaks_and_the_lower_never_do() -> None:
    tracker = tracker_at(1, 850, token_budget=1000)
    assert "85%" in tracker.consume_threshold_warning()
    assert tracker.last_consumed_threshold == 0.8
    assert tracker.consume_threshold_warning() is None
    tracker.record(tokens(50))
    assert "90%" in tracker.consume_threshold_warning()


def test_a_threshold_is_crossed_on_either_axis() -> None:
    assert "25 of 50 iterations" in tracker_at(25).consume_threshold_warning()
    assert "750000 of 1500000 tokens" in tracker_at(1, 750_000).consume_threshold_warning()


def test_a_threshold_told_on_one_axis_is_not_told_again_on_the_other() -> None:
    tracker = tracker_at(5, 0, iteration_budget=10, token_budget=100, warning_thresholds=(0.5,))
    assert tracker.consume_threshold_warning()
    tracker.record(tokens(60))
    assert tracker.consume_threshold_warning() is None


def test_no_threshold_fires_once_the_budget_is_exhausted() -> None:
    for iterations in (10, 11):
        tracker = tracker_at(iterations, iteration_budget=10)
        assert tracker.consume_threshold_warning() is None, iterations
        assert tracker.last_consumed_threshold is None


def test_force_tells_the_highest_stranded_threshold_once() -> None:
    tracker = tracker_at(10, iteration_budget=10)
    assert "100%" in tracker.consume_threshold_warning(force=True)
    assert tracker.last_consumed_threshold == 0.9
    assert tracker.consume_threshold_warning(force=True) is None


def test_force_does_not_repeat_what_was_told() -> None:
    tracker = tracker_at(9, iteration_budget=10)
    assert tracker.consume_threshold_warning()
    tracker.record(None)
    assert tracker.consume_threshold_warning(force=True) is None


def test_force_tells_nothing_that_was_not_crossed() -> None:
    assert tracker_at(4, iteration_budget=10).consume_threshold_warning(force=True) is None


def test_a_threshold_of_the_whole_is_told_only_by_force() -> None:
    tracker = tracker_at(10, iteration_budget=10, warning_thresholds=(1.0,))
    assert tracker.consume_threshold_warning() is None
    assert "100%" in tracker.consume_threshold_warning(force=True)


def test_without_thresholds_nothing_is_told() -> None:
    tracker = tracker_at(9, iteration_budget=10, warning_thresholds=())
    assert tracker.consume_threshold_warning() is None


def test_the_last_threshold_told_can_be_read_until_the_reset() -> None:
    tracker = tracker_at(5, iteration_budget=10)
    tracker.consume_threshold_warning()
    tracker.consume_threshold_warning()
    assert tracker.last_consumed_threshold == 0.5
    tracker.reset()
    assert tracker.last_consumed_threshold is None


def test_the_limit_is_told_once_when_it_is_reached() -> None:
    tracker = tracker_at(9, iteration_budget=10)
    assert tracker.consume_at_limit_warning() is None
    tracker.record(None)
    assert tracker.consume_at_limit_warning() == tracker.at_limit_message()
    assert tracker.consume_at_limit_warning() is None
    tracker.record(None)
    assert tracker.consume_at_limit_warning() is None


def test_a_reset_begins_again_with_every_warning_armed() -> None:
    tracker = tracker_at(9, 10, iteration_budget=10)
    tracker.consume_threshold_warning()
    tracker.record(None)
    tracker.consume_at_limit_warning()
    tracker.reset()
    assert (tracker.total_tokens, tracker.iterations_seen) == (0, 0)
    assert warnings_of(tracker, 9) == [(5, 0.5), (8, 0.8), (9, 0.9)]
    tracker.record(None)
    assert tracker.consume_at_limit_warning()


def test_a_turn_does_not_end_by_itself() -> None:
    tracker = tracker_at(10, iteration_budget=10)
    tracker.maybe_auto_reset()
    assert tracker.iterations_seen == 10


def test_the_limit_message_names_scope_use_cap_and_unit() -> None:
    message = tracker_at(10, 5, iteration_budget=10).at_limit_message()
    assert "turn" in message
    assert "10 of 10 iterations" in message


def test_a_turn_says_the_same_whether_it_is_cut_off_or_demoted() -> None:
    cutoff = tracker_at(10, iteration_budget=10)
    fallback = tracker_at(10, iteration_budget=10, enforcement="fallback")
    assert cutoff.at_limit_message() == fallback.at_limit_message()


def test_tools_are_never_stripped_unless_a_threshold_is_set() -> None:
    assert tracker_at(60).should_strip_tools() is False


def test_tools_are_stripped_from_the_threshold_on_at_every_call() -> None:
    tracker = tracker_at(0, iteration_budget=10, tool_strip_threshold=0.8)
    stripped = []
    for _ in range(12):
        tracker.record(None)
        if tracker.should_strip_tools() and tracker.should_strip_tools():
            stripped.append(tracker.iterations_seen)
    assert stripped == [8, 9, 10, 11, 12]


def test_a_reset_gives_the_tools_back() -> None:
    tracker = tracker_at(9, iteration_budget=10, tool_strip_threshold=0.8)
    tracker.reset()
    assert not tracker.should_strip_tools()


def test_recording_never_raises_whatever_the_model() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(model_weights={"m": 2}))
    for model in (None, "", "m", "..", "\x00", "{}", ":", 5, ["m"], {"m": 1}, object()):
        tracker.record(tokens(1), model)
    assert tracker.iterations_seen == 11


def test_the_lock_from_outside_is_held_at_every_change() -> None:
    class Lock:
        def __init__(self) -> None:
            self.depth = self.taken = 0

        def __enter__(self) -> None:
            self.depth += 1
            self.taken += 1
            assert self.depth == 1, "a plain lock would hang here"

        def __exit__(self, *error: object) -> None:
            self.depth -= 1

    lock = Lock()
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=2), lock=lock)
    for change in (
        lambda: tracker.record(None),
        tracker.consume_threshold_warning,
        lambda: tracker.record(None),
        tracker.consume_at_limit_warning,
        tracker.reset,
    ):
        before = lock.taken
        change()
        assert lock.taken > before, change
        assert lock.depth == 0, change

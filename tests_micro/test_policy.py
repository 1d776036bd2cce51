"""When a policy resets its turn and stops the loop, alone and among others."""

from budget_core import DailyBudgetTracker, TurnBudgetConfig, TurnBudgetPolicy, TurnBudgetTracker
from budget_core.composite_policy import CompositePolicy
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Policy:
    """A policy that refuses at the iterations it was told, and remembers what it saw."""

    def __init__(self, name: str, *refuses: int) -> None:
        self.name = name
        self.refuses = refuses
        self.seen: list[int] = []
        self.asked: list[tuple[int, list[str]]] = []

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        self.seen.append(iteration)
        return iteration not in self.refuses

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        self.asked.append((iteration, tools_used))
        return self.name + " refused"


def tracker_at(calls: int, **config: "Any") -> "Any":
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=3, **config))
    for _ in range(calls):
        tracker.record({"total_tokens": 5})
    return tracker


async def test_the_first_iteration_begins_a_new_turn() -> None:
    tracker = tracker_at(5)
    assert await TurnBudgetPolicy(tracker).should_continue(0, [])
    assert (tracker.iterations_seen, tracker.total_tokens) == (0, 0)


async def test_no_later_iteration_begins_a_turn() -> None:
    tracker = tracker_at(2)
    policy = TurnBudgetPolicy(tracker)
    for iteration in (1, 2, 3):
        assert await policy.should_continue(iteration, [])
    assert tracker.iterations_seen == 2


async def test_a_cut_off_turn_stops_the_loop_at_its_limit() -> None:
    for calls, goes_on in ((2, True), (3, False), (4, False)):
        policy = TurnBudgetPolicy(tracker_at(calls))
        assert await policy.should_continue(calls, []) is goes_on, calls


async def test_no_other_mode_stops_the_loop() -> None:
    for mode in ("observe", "warn", "fallback"):
        policy = TurnBudgetPolicy(tracker_at(4, enforcement=mode))
        assert await policy.should_continue(4, []), mode


async def test_the_policys_own_mode_comes_before_the_trackers() -> None:
    tracker = tracker_at(3)
    assert await TurnBudgetPolicy(tracker, enforcement="warn").should_continue(3, [])
    tracker = tracker_at(3, enforcement="warn")
    assert not await TurnBudgetPolicy(tracker, enforcement="cutoff").should_continue(3, [])


async def test_the_limit_text_is_the_trackers() -> None:
    tracker = tracker_at(3)
    text = await TurnBudgetPolicy(tracker).on_limit_reached(3, [])
    assert text.endswith(tracker.at_limit_message())


async def test_a_sub_agents_policy_does_not_begin_its_parents_turn_again() -> None:
    tracker = tracker_at(2)
    policy = TurnBudgetPolicy(tracker, begins_turns=False)
    assert await policy.should_continue(0, [])
    assert tracker.iterations_seen == 2


async def test_a_sub_agent_of_a_spent_turn_does_not_begin() -> None:
    policy = TurnBudgetPolicy(tracker_at(3), begins_turns=False)
    assert not await policy.should_continue(0, [])


async def test_a_composite_goes_on_while_every_policy_does() -> None:
    composite = CompositePolicy(Policy("a"), Policy("b"))
    for iteration in range(3):
        assert await composite.should_continue(iteration, [])


async def test_any_policys_refusal_stops_a_composite_in_its_own_words() -> None:
    for refusing in ("a", "b", "c"):
        policies = [Policy(name, *([2] if name == refusing else [])) for name in "abc"]
        composite = CompositePolicy(*policies)
        assert await composite.should_continue(1, [])
        assert not await composite.should_continue(2, []), refusing
        assert await composite.on_limit_reached(2, []) == refusing + " refused"


async def test_of_several_refusals_the_first_speaks() -> None:
    for iteration in (0, 1):
        composite = CompositePolicy(Policy("a"), Policy("b", 0, 1), Policy("c", 0, 1))
        assert not await composite.should_continue(iteration, [])
        assert await composite.on_limit_reached(iteration, []) == "b refused", iteration


async def test_every_policy_sees_the_start_of_every_turn() -> None:
    policies = Policy("a", 0), Policy("b"), Policy("c", 0)
    composite = CompositePolicy(*policies)
    for _ in range(2):
        await composite.should_continue(0, [])
    assert [policy.seen for policy in policies] == [[0, 0]] * 3


async def test_a_composite_speaks_for_the_turn_that_was_refused_last() -> None:
    composite = CompositePolicy(Policy("a", 5), Policy("b", 3))
    await composite.should_continue(3, [])
    await composite.should_continue(0, [])
    assert not await composite.should_continue(5, [])
    assert await composite.on_limit_reached(5, []) == "a refused"


async def test_a_composite_passes_on_what_the_loop_tells_it() -> None:
    policy = Policy("a", 4)
    composite = CompositePolicy(policy)
    await composite.should_continue(4, ["read"])
    await composite.on_limit_reached(4, ["read"])
    assert policy.asked == [(4, ["read"])]


async def test_a_turns_policy_resets_its_tracker_inside_a_composite() -> None:
    tracker = tracker_at(3)
    composite = CompositePolicy(Policy("a", 0), TurnBudgetPolicy(tracker))
    assert not await composite.should_continue(0, [])
    assert tracker.iterations_seen == 0


async def test_composites_nest() -> None:
    inner = CompositePolicy(Policy("a"), Policy("b", 1))
    outer = CompositePolicy(Policy("c"), inner)
    assert not await outer.should_continue(1, [])
    assert await outer.on_limit_reached(1, []) == "b refused"


def test_a_composite_of_nothing_is_refused() -> None:
    raises(ValueError, CompositePolicy)


def test_a_policy_refuses_a_tracker_that_is_not_a_turns() -> None:
    assert "tracker" in str(raises(ValueError, TurnBudgetPolicy, DailyBudgetTracker()))

"""The envelope of one turn: its time, its counts, and what they tell."""

from budget_core import Deadline, TurnBudget
from budget_core.monotonic import MonotonicClock
from budget_core.turn_budget import TurnBudget as Core
from tests_micro.support import NO_COUNTS, NO_LIMITS, RecordingLock, raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INFINITY = float("inf")
NAN = float("nan")
COUNTS = ("max_steps", "max_tool_calls", "max_reflections", "max_context_tokens")
NO_SECONDS = (-1, -0.001, -INFINITY, NAN, "60", True, False, [60], b"60")
SNAPSHOT = (
    "expired",
    "reflections_max",
    "reflections_used",
    "remaining_s",
    "steps_max",
    "steps_used",
    "tool_calls_max",
    "tool_calls_used",
)


def new_budget(**limits: "Any") -> "tuple[Any, TurnBudget]":
    fake, clock = stopped_clock()
    return fake, TurnBudget.create(clock=clock, **limits)


def claims_of(budget: TurnBudget) -> "list[tuple[str, Callable[[], bool]]]":
    return [
        ("steps", budget.claim_step),
        ("tool_calls", budget.claim_tool_call),
        ("reflections", budget.claim_reflection),
    ]


def granted(claim: "Callable[[], bool]", most: int = 50) -> int:
    """Return how many claims are granted before the first that is not."""
    for count in range(most):
        if not claim():
            return count
    return most


def nearly(seconds: float, expected: float) -> bool:
    """Compare as a chip can, whose floats have 24 bits."""
    return abs(seconds - expected) <= 1e-5 * max(1, abs(expected))


def test_the_public_name_is_this_class() -> None:
    assert TurnBudget is Core


def test_a_turn_is_given_what_the_seed_gives_it() -> None:
    _, budget = new_budget()
    assert budget.remaining_s() == 60
    assert budget.max_context_tokens == 200_000
    assert budget.min_tool_s == 5.0
    assert [granted(claim) for _, claim in claims_of(budget)] == [6, 6, 4]
    assert budget.snapshot()["steps_max"] == 6
    assert budget.snapshot()["tool_calls_max"] == 6
    assert budget.snapshot()["reflections_max"] == 4


def test_each_limit_bounds_its_own_claims() -> None:
    for name, wanted in (("steps", 2), ("tool_calls", 3), ("reflections", 5)):
        _, budget = new_budget(max_steps=2, max_tool_calls=3, max_reflections=5)
        claim = dict(claims_of(budget))[name]
        assert granted(claim) == wanted, name
        assert [claim(), claim()] == [False, False], name
        used = budget.snapshot()
        assert used[name + "_used"] == wanted, name
        assert sum([used[axis + "_used"] for axis, _ in claims_of(budget)]) == wanted, name


def test_tool_calls_without_a_limit_of_their_own_take_that_of_steps() -> None:
    for steps in (0, 1, 9, None):
        _, budget = new_budget(max_steps=steps)
        assert budget.snapshot()["tool_calls_max"] == steps
        assert granted(budget.claim_tool_call) == (50 if steps is None else steps)
    _, budget = new_budget(max_steps=3)
    granted(budget.claim_tool_call)
    assert granted(budget.claim_step) == 3, "they are counted apart"


def test_none_is_unlimited() -> None:
    _, budget = new_budget(
        timeout_s=None, max_steps=None, max_reflections=None, max_context_tokens=None
    )
    for name, claim in claims_of(budget):
        assert granted(claim, 500) == 500, name
        assert budget.snapshot()[name + "_max"] is None
        assert budget.snapshot()[name + "_used"] == 500
    assert budget.fits_context(1 << 59)
    assert budget.remaining_s() == INFINITY
    assert not budget.is_expired()


def test_zero_is_nothing() -> None:
    _, budget = new_budget(
        timeout_s=0, max_steps=0, max_tool_calls=0, max_reflections=0, max_context_tokens=0
    )
    for name, claim in claims_of(budget):
        assert not claim(), name
    assert budget.fits_context(0)
    assert not budget.fits_context(1)
    assert budget.is_expired()
    assert budget.remaining_s() == 0


def test_a_limit_that_is_none_is_refused_by_name() -> None:
    for name in COUNTS:
        for value in NO_LIMITS:
            text = str(raises(ValueError, TurnBudget.create, **{name: value}))
            assert name + " must be a whole number" in text, text


def test_seconds_that_are_none_are_refused_by_name() -> None:
    for name in ("timeout_s", "min_tool_s"):
        for value in NO_SECONDS:
            text = str(raises(ValueError, TurnBudget.create, **{name: value}))
            assert name + " must be a number of seconds >= 0" in text, text
    assert "min_tool_s" in str(raises(ValueError, TurnBudget.create, min_tool_s=None))


def test_the_turn_expires_at_its_very_instant() -> None:
    fake, budget = new_budget(timeout_s=2)
    for later, expired, left in (
        (0, False, 2),
        (1999, False, 0.001),
        (2000, True, 0),
        (9999, True, 0),
    ):
        fake.now = 1000 + later
        assert budget.is_expired() is expired, later
        assert nearly(budget.remaining_s(), left), later


def test_claims_do_not_ask_for_the_time() -> None:
    fake, budget = new_budget(timeout_s=1)
    fake.advance(5000)
    assert budget.claim_step()
    assert budget.claim_tool_call()
    assert budget.claim_reflection()


def test_a_tool_may_not_run_past_the_turn_or_its_cap() -> None:
    fake, budget = new_budget(timeout_s=60)
    for later, cap, at in (
        (0, 45, 46),
        (0, 60, 61),
        (0, 90, 61),
        (30, 45, 61),
        (30, 20, 51),
        (30, INFINITY, 61),
        (30, None, 61),
        (30, 0, 31),
        (90, 45, 61),
    ):
        fake.now = 1000 + later * 1000
        assert nearly(budget.tool_deadline(cap_s=cap), at), (later, cap)
        assert nearly(budget.deadline_within(cap).instant, at), (later, cap)
    assert nearly(budget.tool_deadline(), 61)


def test_a_deadline_within_a_turn_counts_from_the_turns_start() -> None:
    fake, budget = new_budget()
    fake.advance(3000)
    assert nearly(budget.deadline_within(5).elapsed_seconds(), 3)
    assert budget.deadline_within() is budget.deadline


def test_a_tool_of_an_endless_turn_has_its_cap() -> None:
    _, budget = new_budget(timeout_s=None)
    assert budget.tool_deadline() == INFINITY
    assert nearly(budget.tool_deadline(3), 4)
    assert budget.per_tool_remaining_s() == INFINITY
    assert budget.per_tool_remaining_s(3) == 3


def test_a_tool_gets_what_is_left_at_least_five_seconds_at_most_its_cap() -> None:
    fake, budget = new_budget(timeout_s=60)
    for later, cap, seconds in (
        (0, 45, 45),
        (0, 60, 60),
        (0, 90, 60),
        (30, 45, 30),
        (55, 45, 5),
        (56, 45, 5),
        (60, 45, 5),
        (600, 45, 5),
        (600, 5, 5),
        (600, 2, 2),
        (0, 2, 2),
        (0, 0, 0),
        (600, 0, 0),
        (0, INFINITY, 60),
        (600, INFINITY, 5),
        (20, None, 40),
        (600, None, 5),
    ):
        fake.now = 1000 + later * 1000
        assert nearly(budget.per_tool_remaining_s(cap), seconds), (later, cap)
    assert budget.per_tool_remaining_s() == 5


def test_the_least_a_tool_gets_can_be_set() -> None:
    for least in (0, 0.5, 20):
        fake, budget = new_budget(timeout_s=10, min_tool_s=least)
        assert nearly(budget.per_tool_remaining_s(45), max(10, least)), least
        fake.advance(9900)
        assert nearly(budget.per_tool_remaining_s(45), max(0.1, least)), least
        fake.advance(9900)
        assert nearly(budget.per_tool_remaining_s(45), least), least
        assert nearly(budget.per_tool_remaining_s(0.25), min(0.25, least)), least


def test_a_cap_that_is_no_number_of_seconds_is_refused_by_name() -> None:
    _, budget = new_budget()
    for method in (budget.tool_deadline, budget.deadline_within, budget.per_tool_remaining_s):
        for cap in NO_SECONDS:
            text = str(raises(ValueError, method, cap))
            assert "cap_s must be a number of seconds >= 0" in text, text


def test_the_context_holds_as_many_tokens_as_its_limit() -> None:
    _, budget = new_budget(max_context_tokens=100)
    assert [budget.fits_context(tokens) for tokens in (0, 99, 100, 101)] == [
        True,
        True,
        True,
        False,
    ]
    for tokens in NO_COUNTS:
        assert "tokens must be" in str(raises(ValueError, budget.fits_context, tokens)), tokens


def test_a_snapshot_has_exactly_the_seeds_keys() -> None:
    _, budget = new_budget()
    assert tuple(sorted(budget.snapshot())) == SNAPSHOT


def test_a_snapshot_tells_what_was_used() -> None:
    fake, budget = new_budget(timeout_s=60, max_steps=6, max_tool_calls=7, max_reflections=4)
    for (_, claim), times in zip(claims_of(budget), (2, 3, 1)):  # noqa: B905 - MicroPython's has no strict
        for _ in range(times):
            assert claim()
    fake.advance(17_250)
    assert budget.snapshot() == {
        "remaining_s": 42.75,
        "expired": False,
        "steps_used": 2,
        "steps_max": 6,
        "tool_calls_used": 3,
        "tool_calls_max": 7,
        "reflections_used": 1,
        "reflections_max": 4,
    }


def test_a_snapshot_does_not_change() -> None:
    fake, budget = new_budget()
    before = budget.snapshot()
    budget.claim_step()
    fake.advance(90_000)
    assert (before["steps_used"], before["expired"], before["remaining_s"]) == (0, False, 60)
    before["steps_used"] = 5
    assert budget.snapshot()["steps_used"] == 1
    assert budget.snapshot()["expired"] is True
    assert budget.snapshot()["remaining_s"] == 0


def test_a_snapshot_is_of_one_instant() -> None:
    readings = iter(range(10**9))
    hasty = MonotonicClock(lambda: next(readings))
    budget = TurnBudget.create(timeout_s=0.02, clock=hasty)
    for _ in range(40):
        seen = budget.snapshot()
        assert seen["expired"] is (seen["remaining_s"] == 0), seen
    assert seen["expired"]


def test_every_claim_and_snapshot_takes_the_one_lock() -> None:
    lock = RecordingLock()
    budget = TurnBudget.create(max_steps=1, lock=lock)
    claims: Any = [claim for _, claim in claims_of(budget)]
    for count, claim in enumerate(claims + [budget.snapshot, budget.claim_step]):
        claim()
        assert (lock.taken, lock.held) == (count + 1, False)


def test_budgets_count_apart() -> None:
    first, second = TurnBudget.create(), TurnBudget.create()
    first.claim_step()
    assert second.snapshot()["steps_used"] == 0


def test_a_budget_can_be_given_a_deadline() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(3, clock)
    budget = TurnBudget(deadline, 1, 1, 1, 1, 0)
    assert budget.deadline is deadline
    fake.advance(3000)
    assert budget.is_expired()
    assert budget.per_tool_remaining_s(45) == 0


def test_a_harness_stops_when_steps_or_time_are_used_up() -> None:
    for timeout, steps in ((60, 6), (2.5, 3)):
        fake, budget = new_budget(timeout_s=timeout)
        made = 0
        while budget.claim_step():
            if budget.is_expired():
                break
            made += 1
            fake.advance(1000)
        assert made == steps

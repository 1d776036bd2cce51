"""Deadlines: when they pass, how they combine and compare, and how they cross to other machines."""

from budget_core import BudgetError, Deadline, DeadlineExceeded
from budget_core.monotonic import MonotonicClock
from tests_micro.support import FakeClock, raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INFINITY = float("inf")
NAN = float("nan")
NO_NUMBERS = ("5", "", b"5", None, True, False, [5], NAN)


class Plain:
    __slots__ = ("seconds",)


def slots_are_enforced() -> bool:
    try:
        Plain().minutes = 1  # type: ignore[attr-defined]
    except AttributeError:
        return True
    return False


def set_attribute(thing: object, name: str, value: object) -> None:
    setattr(thing, name, value)


def nearly(seconds: float, expected: float) -> bool:
    """Compare as a chip can, whose floats have 24 bits."""
    return abs(seconds - expected) <= 1e-5 * max(1, abs(expected))


def passed(clock: "MonotonicClock") -> Deadline:
    return Deadline.from_now(0, clock)


def test_a_deadline_passes_at_its_very_instant() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(5, clock)
    for later, expired in ((0, False), (1, False), (4999, False), (5000, True), (5001, True)):
        fake.now = 1000 + later
        assert deadline.is_expired() is expired, later


def test_a_check_raises_exactly_where_the_deadline_has_passed() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(5, clock)
    deadline.check_or_raise()
    fake.now = 5999
    deadline.check_or_raise()
    for now in (6000, 6001, 10**9):
        fake.now = now
        raises(DeadlineExceeded, deadline.check_or_raise)


def test_no_seconds_and_fewer_have_passed_already() -> None:
    for seconds in (0, 0.0, -0.0, -1, -0.5, -1e30, -(10**20), -INFINITY, 0.0004):
        _, clock = stopped_clock()
        deadline = Deadline.from_now(seconds, clock)
        assert deadline.is_expired(), seconds
        assert not deadline.is_never(), seconds
        assert deadline.remaining_seconds() == 0, seconds
        assert nearly(deadline.instant, 1), seconds


def test_infinity_is_never() -> None:
    fake, clock = stopped_clock()
    for deadline in (Deadline.from_now(INFINITY, clock), Deadline.never(clock)):
        fake.now = 10**15
        assert deadline.is_never()
        assert not deadline.is_expired()
        assert deadline.remaining_seconds() == INFINITY
        assert deadline.instant == INFINITY
        deadline.check_or_raise()


def test_what_is_no_number_of_seconds_is_refused() -> None:
    for value in NO_NUMBERS:
        text = str(raises(ValueError, Deadline.from_now, value))
        assert "seconds must be a number of seconds, not " + repr(value) in text, text


def test_a_deadline_of_this_machines_clock_needs_nothing_else() -> None:
    deadline = Deadline.from_now(3600)
    assert 0 < deadline.remaining_seconds() <= 3600
    assert not deadline.is_expired()
    deadline.check_or_raise()
    assert Deadline.from_now(-1).is_expired()
    assert not Deadline.never().is_expired()


def test_what_is_left_goes_down_to_nothing_and_not_below() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(2, clock)
    for later, left in ((0, 2.0), (500, 1.5), (1999, 0.001), (2000, 0.0), (2001, 0.0), (9999, 0.0)):
        fake.now = 1000 + later
        assert nearly(deadline.remaining_seconds(), left), later
        assert type(deadline.remaining_seconds()) is float


def test_what_has_elapsed_counts_from_when_it_was_set() -> None:
    fake, clock = stopped_clock()
    deadlines = [Deadline.from_now(2, clock), Deadline.never(clock), passed(clock)]
    for later in (0, 1, 2000, 2500, 10_000):
        fake.now = 1000 + later
        for deadline in deadlines:
            assert nearly(deadline.elapsed_seconds(), later / 1000), later


def test_what_was_allowed_stays_the_same() -> None:
    fake, clock = stopped_clock()
    deadline, never = Deadline.from_now(2.5, clock), Deadline.never(clock)
    fake.advance(10_000)
    assert nearly(deadline.allowed_seconds(), 2.5)
    assert never.allowed_seconds() == INFINITY


def test_the_instant_is_in_seconds() -> None:
    _, clock = stopped_clock(2500)
    assert nearly(Deadline.from_now(1.25, clock).instant, 3.75)
    assert Deadline.never(clock).instant == INFINITY


def test_a_deadline_at_an_instant_passes_then() -> None:
    fake, clock = stopped_clock(2500)
    for instant in (3.75, 3, 2.5, 2, 0, -1, -INFINITY):
        fake.now = 2500
        deadline = Deadline.at(instant, clock)
        assert nearly(deadline.instant, max(2.5, instant)), instant
        assert nearly(deadline.remaining_seconds(), max(0, instant - 2.5)), instant
        assert deadline.is_expired() is (instant <= 2.5), instant
        assert deadline.allowed_seconds() >= 0, instant
        assert Deadline.at(deadline.instant, clock) == deadline, instant
        fake.now = 4000
        assert deadline.is_expired(), instant
    assert Deadline.at(INFINITY, clock).is_never()


def test_an_instant_that_a_clock_cannot_measure_or_that_is_no_number_is_refused() -> None:
    fake = FakeClock(1_000_000)
    clock = MonotonicClock(lambda: int(fake()), 1, 5000)
    assert nearly(Deadline.at(1005, clock).remaining_seconds(), 5)
    assert "5 s ahead, not 6 s" in str(raises(ValueError, Deadline.at, 1006, clock))
    for value in NO_NUMBERS:
        text = str(raises(ValueError, Deadline.at, value, clock))
        assert "instant must be a number of seconds, not " + repr(value) in text, text


def test_a_public_attribute_cannot_be_set() -> None:
    deadline = Deadline.from_now(5)
    raises(AttributeError, set_attribute, deadline, "instant", 7)
    if slots_are_enforced():
        raises(AttributeError, set_attribute, deadline, "seconds", 7)
        assert not hasattr(deadline, "__dict__")


def test_the_error_carries_the_deadline_and_what_had_elapsed() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(2, clock)
    fake.advance(2500)
    error = raises(DeadlineExceeded, deadline.check_or_raise)
    fake.advance(1000)
    assert error.deadline is deadline
    assert nearly(error.elapsed_seconds, 2.5)
    assert str(error) == "the deadline has passed: 2.500 s of 2.000 s"


def test_the_error_is_a_budget_error_and_a_timeout_where_there_is_one() -> None:
    error: Exception = raises(DeadlineExceeded, Deadline.from_now(0).check_or_raise)
    assert isinstance(error, BudgetError)
    try:
        timeout = TimeoutError
    except NameError:
        return
    assert isinstance(error, timeout)


def test_the_error_tells_how_long_a_deadline_in_force_has_run() -> None:
    _, clock = stopped_clock()
    assert "inf" in str(DeadlineExceeded(Deadline.never(clock)))


def test_a_with_block_is_entered_with_its_deadline_before_the_instant() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(1, clock)
    fake.advance(999)
    with deadline as entered:
        assert entered is deadline
    with Deadline.never(clock) as entered:
        assert entered.is_never()


def test_a_with_block_is_refused_once_the_deadline_has_passed() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(1, clock)
    fake.advance(1000)
    ran = []

    def enter() -> None:
        with deadline:
            ran.append(1)

    assert raises(DeadlineExceeded, enter).deadline is deadline
    assert ran == []


def test_a_with_block_never_raises_at_its_end() -> None:
    fake, clock = stopped_clock()
    ran = []
    with Deadline.from_now(1, clock) as deadline:
        fake.advance(5000)
        ran.append(deadline.is_expired())
    assert ran == [True]


def test_a_with_block_lets_its_bodys_own_error_through() -> None:
    fake, clock = stopped_clock()
    own = KeyError("the body's own")

    def run(late: bool) -> None:
        with Deadline.from_now(1, clock):
            fake.advance(5000 if late else 0)
            raise own

    for late in (False, True):
        assert raises(KeyError, run, late) is own


def test_the_earlier_of_two_is_their_intersection() -> None:
    _, clock = stopped_clock()
    early, late, never = (Deadline.from_now(s, clock) for s in (1, 5, INFINITY))
    for first, second in ((early, late), (late, early), (early, never), (never, early)):
        assert first.intersect(second) == early
    assert never.intersect(Deadline.never(clock)).is_never()
    assert early.intersect(early) is early


def test_a_number_of_seconds_counts_from_now_in_an_intersection() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(10, clock)
    fake.advance(4000)
    for seconds, left in (
        (2, 2.0),
        (2.5, 2.5),
        (6, 6.0),
        (7, 6.0),
        (INFINITY, 6.0),
        (0, 0.0),
        (-3, 0.0),
    ):
        assert nearly(deadline.intersect(seconds).remaining_seconds(), left), seconds
    assert nearly(Deadline.never(clock).intersect(3).remaining_seconds(), 3)
    assert Deadline.never(clock).intersect(INFINITY).is_never()


def test_an_intersection_goes_on_from_this_ones_start() -> None:
    fake, clock = stopped_clock()
    turn, always = Deadline.from_now(10, clock), Deadline.never(clock)
    fake.advance(4000)
    for outer in (turn, always):
        for inner in (1, Deadline.from_now(1, clock), 99, Deadline.from_now(99, clock)):
            assert nearly(outer.intersect(inner).elapsed_seconds(), 4), inner
    both = turn.intersect(1)
    fake.advance(2000)
    assert nearly(both.elapsed_seconds(), 6)
    assert nearly(both.allowed_seconds(), 5)
    assert nearly(raises(DeadlineExceeded, both.check_or_raise).elapsed_seconds, 6)


def test_an_intersection_leaves_both_as_they_were() -> None:
    fake, clock = stopped_clock()
    turn = Deadline.from_now(10, clock)
    fake.advance(1000)
    call = Deadline.from_now(2, clock)
    turn.intersect(call)
    assert nearly(turn.remaining_seconds(), 9)
    assert nearly(turn.elapsed_seconds(), 1)
    assert nearly(call.elapsed_seconds(), 0)


def test_an_intersection_with_what_is_neither_is_refused() -> None:
    deadline = Deadline.from_now(10)
    for value in NO_NUMBERS:
        assert "seconds" in str(raises(ValueError, deadline.intersect, value)), value


def test_a_deadline_of_another_clock_intersects_only_where_one_is_never() -> None:
    (fake, mine), (_, other) = stopped_clock(), stopped_clock(50)
    here, never_here = Deadline.from_now(10, mine), Deadline.never(mine)
    there, never_there = Deadline.from_now(3, other), Deadline.never(other)
    fake.advance(2000)
    raises(ValueError, here.intersect, there)
    assert here.intersect(never_there) is here
    assert never_here.intersect(never_there).is_never()
    both = never_here.intersect(there)
    assert both == there
    assert nearly(both.remaining_seconds(), 3)
    assert nearly(both.elapsed_seconds(), 2), "it goes on from this one's start"
    slow = MonotonicClock(lambda: int(fake()) * 500, 1000)
    for from_clock, to_clock, elapsed in ((slow, mine, 1.5), (mine, slow, 3)):
        always = Deadline.never(from_clock)
        fake.advance(3000)
        both = always.intersect(Deadline.from_now(3, to_clock))
        assert nearly(both.elapsed_seconds(), elapsed)


def test_deadlines_of_one_instant_are_equal() -> None:
    fake, clock = stopped_clock()
    first = Deadline.from_now(5, clock)
    fake.advance(1000)
    second = Deadline.from_now(4, clock)
    assert first == second
    assert not first != second  # noqa: SIM202 - the other method
    assert hash(first) == hash(second)
    assert len({first, second}) == 1
    assert first <= second
    assert first >= second
    assert not first < second
    assert not first > second


def test_the_earlier_deadline_is_the_smaller() -> None:
    _, clock = stopped_clock()
    early, late, never = (Deadline.from_now(s, clock) for s in (1, 5, INFINITY))
    for less, more in ((early, late), (late, never), (early, never)):
        assert less < more
        assert less <= more
        assert more > less
        assert more >= less
        assert not more < less
        assert not more <= less
        assert not less > more
        assert not less >= more
        assert less != more
    assert min([never, late, early]) is early
    assert max([early, never, late]) is never
    assert sorted([never, early, late]) == [early, late, never]


def test_nevers_are_equal_whatever_their_clocks() -> None:
    first, second = Deadline.never(stopped_clock()[1]), Deadline.never(stopped_clock()[1])
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1
    assert first <= second
    assert first >= second
    assert not first < second
    assert not first > second


def test_instants_of_different_clocks_are_neither_equal_nor_ordered() -> None:
    here = Deadline.from_now(5, stopped_clock()[1])
    there = Deadline.from_now(5, stopped_clock()[1])
    never = Deadline.never(stopped_clock()[1])
    assert here != there
    for compare in (
        lambda: here < there,
        lambda: here <= there,
        lambda: here > there,
        lambda: here >= there,
    ):
        assert str(raises(ValueError, compare)) == "these deadlines are of different clocks"
    assert here < never
    assert never > here
    assert here != never


def test_a_deadline_compares_with_deadlines_only() -> None:
    deadline: Any = Deadline.from_now(5)
    for other in (5, 5.0, None, "5", deadline.instant):
        assert deadline != other
        assert (deadline == other) is False
        for compare in (
            lambda: deadline < other,  # noqa: B023 - called before the next turn of the loop
            lambda: deadline <= other,  # noqa: B023
            lambda: deadline > other,  # noqa: B023
            lambda: deadline >= other,  # noqa: B023
        ):
            text = "a deadline compares with a deadline, not " + repr(other)
            assert str(raises(TypeError, compare)) == text


def test_a_repr_tells_what_is_left() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(2.5, clock)
    assert repr(deadline) == "<Deadline: 2.500 s left>"
    fake.advance(2499)
    assert repr(deadline) == "<Deadline: 0.001 s left>"
    fake.advance(1)
    assert repr(deadline) == "<Deadline: passed 0.000 s ago>"
    fake.advance(1500)
    assert repr(deadline) == "<Deadline: passed 1.500 s ago>"
    assert repr(Deadline.never(clock)) == "<Deadline: never>"


def test_a_timeout_is_what_is_left() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(3, clock)
    fake.advance(1000)
    assert nearly(deadline.timeout() or 0, 2)
    for at_most, seconds in ((0.5, 0.5), (2, 2.0), (7, 2.0), (INFINITY, 2.0), (10**40, 2.0)):
        assert nearly(deadline.timeout(at_most) or 0, seconds), at_most
    assert nearly(deadline.timeout(0.0001) or 0, 0.0001), "a short wait is not none"


def test_a_timeout_of_never_is_none_unless_something_else_bounds_it() -> None:
    never = Deadline.never(stopped_clock()[1])
    assert never.timeout() is None
    assert never.timeout(INFINITY) is None
    assert nearly(never.timeout(4) or 0, 4)


def test_a_timeout_of_nothing_is_an_error() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(1, clock)
    assert raises(DeadlineExceeded, deadline.timeout, 0).deadline is deadline
    fake.advance(1000)
    for at_most in (None, 0, 5, INFINITY):
        assert raises(DeadlineExceeded, deadline.timeout, at_most).deadline is deadline
    raises(DeadlineExceeded, Deadline.never(clock).timeout, 0)


def test_a_timeout_is_bounded_by_a_number_of_seconds_only() -> None:
    deadline = Deadline.from_now(5)
    for value in NO_NUMBERS + (-1, -INFINITY):
        if value is not None:
            assert "at_most must be" in str(raises(ValueError, deadline.timeout, value)), value


def test_what_goes_over_the_wire_is_what_remains_less_the_way() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(2, clock)
    for later, transit, sent in (
        (0, 0, 2000),
        (0, 0.05, 1950),
        (0, 0.25, 1750),
        (700, 0, 1300),
        (700, 0.3, 1000),
        (1999, 0, 1),
        (1960, 0.05, 0),
        (1000, 1, 0),
        (1000, 5, 0),
        (2000, 0, 0),
        (9000, 0, 0),
    ):
        fake.now = 1000 + later
        assert deadline.to_wire(transit) == sent, (later, transit)
        assert type(deadline.to_wire(transit)) is int
    fake.now = 1000
    assert deadline.to_wire() == 1950


def test_what_goes_over_the_wire_is_nothing_only_where_nothing_is_left() -> None:
    clock = MonotonicClock(lambda: now, 1000)
    now = 7
    deadline = Deadline.from_now(2, clock)
    for now, sent in (
        (7, 2000),
        (8, 2000),
        (1006, 2000),
        (1007, 1999),
        (1_999_008, 1),
        (2_000_006, 1),
        (2_000_007, 0),
        (2_000_008, 0),
    ):
        assert deadline.to_wire(0) == sent, now
        assert deadline.is_expired() is (sent == 0), now


def test_a_finer_clock_tells_the_same() -> None:
    coarse, slow = stopped_clock()
    fine, fast = FakeClock(1_000_000), MonotonicClock(lambda: int(fine()), 1000)
    both = [Deadline.from_now(2, clock) for clock in (slow, fast)]
    tells: list[Callable[[Deadline], Any]] = [
        lambda deadline: deadline.instant,
        lambda deadline: deadline.is_expired(),
        lambda deadline: deadline.remaining_seconds(),
        lambda deadline: deadline.elapsed_seconds(),
        lambda deadline: deadline.allowed_seconds(),
        lambda deadline: deadline.to_wire(),
        lambda deadline: deadline.intersect(0.5).to_wire(0),
        lambda deadline: deadline.intersect(0.5).elapsed_seconds(),
    ]
    for later in (0, 1, 700, 1999, 2000, 2500):
        coarse.now, fine.now = 1000 + later, (1000 + later) * 1000
        one, other = both
        assert repr(one) == repr(other), later
        for tell in tells:
            assert nearly(tell(one), tell(other)), later


def test_never_goes_over_the_wire_as_none() -> None:
    never = Deadline.never()
    assert never.to_wire() is None
    assert Deadline.from_wire(None).is_never()


def test_an_endless_way_leaves_nothing() -> None:
    assert Deadline.from_now(5).to_wire(INFINITY) == 0


def test_an_allowance_that_is_no_number_of_seconds_is_refused_by_name() -> None:
    for deadline in (Deadline.from_now(5), Deadline.never()):
        for value in NO_NUMBERS + (-0.001, -INFINITY):
            assert "transit_s must be" in str(raises(ValueError, deadline.to_wire, value)), value


def test_the_other_machine_gives_up_first() -> None:
    (here, mine), (there, theirs) = stopped_clock(5), stopped_clock(10**12)
    sent = Deadline.from_now(2, mine)
    received = Deadline.from_wire(sent.to_wire(), theirs)
    for passing in range(0, 2500, 50):
        here.now, there.now = 5 + passing, 10**12 + passing
        assert received.is_expired() or not sent.is_expired(), passing
    there.now = 10**12 + 1949
    assert not received.is_expired()
    there.now += 1
    assert received.is_expired()


def test_a_deadline_from_the_wire_begins_when_it_arrives() -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_wire(1500, clock)
    fake.advance(400)
    assert nearly(deadline.elapsed_seconds(), 0.4)
    assert deadline.to_wire(0) == 1100
    assert Deadline.from_wire(0, clock).is_expired()


def test_what_to_wire_never_sends_is_refused() -> None:
    values: tuple[Any, ...] = (-1, -(2**70), 1.5, 1500.0, NAN, INFINITY, True, "1500", b"1", [])
    for value in values + (False, 1 << 60):
        assert "remaining_ms must be" in str(raises(ValueError, Deadline.from_wire, value)), value


def test_a_deadline_derived_from_one_is_of_its_kind() -> None:
    class Strict(Deadline):
        pass

    _, clock = stopped_clock()
    strict = Strict.from_now(5, clock)
    for deadline in (
        strict,
        strict.intersect(1),
        Strict.never(clock),
        Strict.never(clock).intersect(2),
        Strict.from_wire(7, clock),
        strict.intersect(Deadline.from_now(1, clock)),
    ):
        assert type(deadline) is Strict
        assert repr(deadline).startswith("<Strict: ")
    assert strict == Deadline.from_now(5, clock)

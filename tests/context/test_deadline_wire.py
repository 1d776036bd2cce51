"""Deadlines that are pickled, copied, or raised in another process."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from budget_core import deadline as core
from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.monotonic import MONOTONIC
from budget_cpython.context.deadline import Deadline
from tests_micro.support import stopped_clock

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy]


def sent(thing: Any, protocol: int = pickle.DEFAULT_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(thing, protocol))  # noqa: S301 - our own


class Narrow(Deadline):
    """A deadline of somebody's own kind."""

    __slots__ = ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickled_deadline_sends_what_remains_without_an_allowance(protocol: int) -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(60, clock)
    fake.now += 20_001
    there = sent(deadline, protocol)
    assert type(there) is Deadline
    assert there.allowed_seconds() == 39.999


def test_what_is_sent_does_not_hold_the_instant() -> None:
    fake, clock = stopped_clock(1000)
    one = pickle.dumps(Deadline.from_now(60, clock))
    fake.now = 123_456_789
    assert pickle.dumps(Deadline.from_now(60, clock)) == one


def test_where_it_arrives_it_goes_on_by_the_clock_there() -> None:
    _, clock = stopped_clock()
    there = sent(Deadline.from_now(60, clock))
    assert there < Deadline.from_now(60.5, MONOTONIC)
    assert there.elapsed_seconds() < 60


def test_one_that_never_passes_never_does_there() -> None:
    assert sent(Deadline.never()).is_never()


@pytest.mark.parametrize("seconds", [0, -5])
def test_one_that_has_passed_has_passed_there(seconds: float) -> None:
    assert sent(Deadline.from_now(seconds)).is_expired()


def test_a_derived_deadline_stays_of_its_kind() -> None:
    assert type(sent(Narrow.from_now(60))) is Narrow


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_the_deadline_itself(copied: Callable[[Any], Any]) -> None:
    _, clock = stopped_clock()
    for deadline in (Deadline.from_now(60), Deadline.from_now(60, clock), Deadline.never()):
        assert copied(deadline) is deadline
    assert copied([deadline])[0] is deadline


def raised(deadline: core.Deadline) -> DeadlineExceeded:
    with pytest.raises(DeadlineExceeded) as caught:
        deadline.check_or_raise()
    return caught.value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", [Deadline, core.Deadline])
def test_a_pickled_error_says_there_what_it_says_here(
    protocol: int, kind: type[core.Deadline]
) -> None:
    fake, clock = stopped_clock()
    deadline = kind.from_now(5, clock)
    fake.now += 7000
    error = raised(deadline)
    error.add_note("while calling a tool")
    there = sent(error, protocol)
    assert type(there) is DeadlineExceeded
    assert isinstance(there, TimeoutError)
    assert isinstance(there, BudgetError)
    assert str(there) == str(error) == "the deadline has passed: 7.000 s of 5.000 s"
    assert there.args == error.args
    assert there.elapsed_seconds == 7.0
    assert there.__notes__ == ["while calling a tool"]
    assert isinstance(there.deadline, Deadline)
    assert there.deadline.is_expired()
    there.deadline.remaining_seconds()


def test_a_pickled_error_does_not_hold_the_instant() -> None:
    fake, clock = stopped_clock(1000)
    one = pickle.dumps(raised(Deadline.from_now(0, clock)))
    fake.now = 123_456_789
    assert pickle.dumps(raised(Deadline.from_now(0, clock))) == one


@pytest.mark.parametrize("kind", [Deadline, core.Deadline])
def test_an_error_raised_before_its_deadline_by_this_clock_sends_what_was_left(
    kind: type[core.Deadline],
) -> None:
    _, clock = stopped_clock()
    there = sent(DeadlineExceeded(kind.from_now(60, clock)))
    assert there.deadline.allowed_seconds() == 60


def test_an_error_and_its_deadline_stay_together() -> None:
    deadline = Deadline.from_now(0)
    there, error = sent([deadline, raised(deadline)])
    assert error.deadline is there


@pytest.mark.parametrize("copied", COPIES)
def test_a_copied_error_keeps_its_deadline(copied: Callable[[Any], Any]) -> None:
    fake, clock = stopped_clock()
    deadline = Deadline.from_now(5, clock)
    fake.now += 7000
    error = copied(raised(deadline))
    assert error.deadline is deadline
    assert error.elapsed_seconds == 7.0


def test_a_deadline_reaches_another_process_and_its_error_comes_back() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        left = pool.submit(Deadline.remaining_seconds, Deadline.from_now(600)).result(300)
        assert 0 < left <= 600
        error = pool.submit(Deadline.check_or_raise, Deadline.from_now(0)).exception(300)
    assert isinstance(error, DeadlineExceeded)
    assert error.deadline.is_expired()

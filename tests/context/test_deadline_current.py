"""The deadline that code has without being handed one."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from budget_core.errors import DeadlineExceeded
from budget_cpython.context.deadline import Deadline
from tests_micro.support import stopped_clock

PATIENCE = 60


def test_where_none_is_set_the_current_one_never_passes() -> None:
    assert Deadline.current().is_never()
    assert type(Deadline.current()) is Deadline


def test_a_deadline_is_current_inside_and_no_longer_outside() -> None:
    deadline = Deadline.from_now(60)
    with deadline.as_current() as given:
        assert given is deadline
        assert Deadline.current() is deadline
    assert Deadline.current().is_never()


def test_it_is_no_longer_current_after_an_error() -> None:
    with pytest.raises(ValueError, match="mine"), Deadline.from_now(60).as_current():
        raise ValueError("mine")
    assert Deadline.current().is_never()


@pytest.mark.parametrize(("outer_s", "inner_s"), [(60, 5), (5, 60), (5, float("inf")), (5, 0)])
def test_of_nested_ones_the_earlier_holds_and_afterwards_the_outer_one_again(
    outer_s: float, inner_s: float
) -> None:
    outer, inner = Deadline.from_now(outer_s), Deadline.from_now(inner_s)
    earlier = inner if inner_s < outer_s else outer
    with outer.as_current():
        with inner.as_current() as given:
            assert given is earlier
            assert Deadline.current() is earlier
        assert Deadline.current() is outer


def test_of_the_same_instant_the_outer_one_holds() -> None:
    _, clock = stopped_clock()
    outer, inner = Deadline.from_now(5, clock), Deadline.from_now(5, clock)
    with outer.as_current(), inner.as_current() as given:
        assert given is outer


def test_a_real_deadline_holds_inside_one_that_never_passes() -> None:
    deadline = Deadline.from_now(60)
    with Deadline.never().as_current(), deadline.as_current() as given:
        assert given is deadline


def test_a_deadline_may_be_current_twice() -> None:
    deadline = Deadline.from_now(60)
    with deadline.as_current():
        with deadline.as_current():
            assert Deadline.current() is deadline
        assert Deadline.current() is deadline
    assert Deadline.current().is_never()


def test_one_that_has_passed_is_only_told() -> None:
    deadline = Deadline.from_now(0)
    with deadline.as_current():
        assert Deadline.current() is deadline
        with pytest.raises(DeadlineExceeded):
            Deadline.current().check_or_raise()


def test_deadlines_of_different_clocks_do_not_nest() -> None:
    around = Deadline.from_now(60)
    _, clock = stopped_clock()
    with around.as_current():
        with (
            pytest.raises(ValueError, match="different clocks"),
            Deadline.from_now(5, clock).as_current(),
        ):
            pytest.fail("the body ran")
        assert Deadline.current() is around


def test_one_that_is_handed_on_is_not_touched_by_the_current_one() -> None:
    handed = Deadline.from_now(60)
    with Deadline.from_now(0).as_current():
        handed.check_or_raise()
        assert not handed.is_expired()


def test_a_task_has_the_one_of_the_code_that_made_it() -> None:
    outer, inner = Deadline.from_now(60), Deadline.from_now(5)

    async def current() -> Deadline:
        await asyncio.sleep(0)
        return Deadline.current()

    async def narrow() -> Deadline:
        with inner.as_current():
            return await current()

    async def main() -> None:
        with outer.as_current():
            tasks = [asyncio.create_task(work()) for work in (current, narrow, current)]
        assert Deadline.current().is_never()
        assert await asyncio.gather(*tasks) == [outer, inner, outer]
        assert await current() == Deadline.never()

    asyncio.run(main())


def test_a_thread_of_asyncio_has_it() -> None:
    deadline = Deadline.from_now(60)

    async def main() -> Deadline:
        with deadline.as_current():
            return await asyncio.to_thread(Deadline.current)

    assert asyncio.run(main()) is deadline


def test_a_thread_that_runs_in_a_copy_of_the_context_has_it_and_changes_nothing_here() -> None:
    outer, inner = Deadline.from_now(60), Deadline.from_now(5)
    entered, leave = threading.Event(), threading.Event()

    def narrow() -> list[Deadline]:
        found = [Deadline.current()]
        with inner.as_current():
            entered.set()
            leave.wait(PATIENCE)
            return [*found, Deadline.current()]

    with outer.as_current(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(contextvars.copy_context().run, narrow)
        assert entered.wait(PATIENCE)
        assert Deadline.current() is outer
        leave.set()
        assert future.result(PATIENCE) == [outer, inner]


def test_a_new_thread_starts_with_none() -> None:
    found = []
    with Deadline.from_now(60).as_current():
        thread = threading.Thread(target=lambda: found.append(Deadline.current()))
        thread.start()
        thread.join(PATIENCE)
    assert found == [Deadline.never()]


def test_code_that_is_handed_nothing_ends_by_the_deadline_around_it() -> None:
    fake, clock = stopped_clock()
    steps = []

    def step() -> None:
        Deadline.current().check_or_raise()
        steps.append(fake.now)
        fake.now += 1000

    def work() -> None:
        while True:
            step()

    deadline = Deadline.from_now(3, clock)
    with pytest.raises(DeadlineExceeded) as caught, deadline.as_current():
        work()
    assert caught.value.deadline is deadline
    assert steps == [1000, 2000, 3000]

"""Scopes on an event loop whose clock is the test's: nothing waits, and any two things may fall on
the same instant.
"""

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from itertools import product
from typing import Any

import pytest

from budget_core.errors import DeadlineExceeded
from budget_core.monotonic import MonotonicClock
from budget_cpython.context import deadline as module
from budget_cpython.context.deadline import Deadline

SECOND = 1_000_000_000


class Time:
    """What time it is for the loop in nanoseconds, and for the deadlines some `apart` from that."""

    def __init__(self, apart: int) -> None:
        self.now = 1000 * SECOND
        self.clock = MonotonicClock(lambda: self.now + apart, 1_000_000)

    def pass_by(self, seconds: float) -> None:
        """Let time pass in which the loop does not run."""
        self.now += round(seconds * SECOND)

    def deadline(self, seconds: float) -> Deadline:
        return Deadline.from_now(seconds, self.clock)


class Loop(asyncio.SelectorEventLoop):
    """Runs on a `Time`, which passes as soon as the loop has nothing else to do."""

    def __init__(self, time: Time) -> None:
        self.the_time = time
        super().__init__(Selector(time))

    def time(self) -> float:
        return self.the_time.now / SECOND


class Selector(selectors.SelectSelector):
    def __init__(self, time: Time) -> None:
        self.time = time
        super().__init__()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left that could end the wait"
        self.time.now += math.ceil(round(timeout * SECOND, 3))
        return super().select(0)


@pytest.fixture(params=["the machine's clock", "a clock of their own"])
def now(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Time:
    if request.param == "a clock of their own":
        return Time(apart=-700 * SECOND)
    time = Time(apart=0)
    monkeypatch.setattr(module, "MONOTONIC", time.clock)
    return time


@pytest.fixture
def run(now: Time) -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    with asyncio.Runner(loop_factory=lambda: Loop(now)) as runner:
        yield runner.run


Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def in_scopes(*deadlines: Deadline) -> None:
    """Wait forever inside the scopes of these deadlines, the first outermost."""
    async with AsyncExitStack() as stack:
        for deadline in deadlines:
            await stack.enter_async_context(deadline.scope())
        await forever()


async def exceeded(work: Coroutine[Any, Any, Any]) -> DeadlineExceeded:
    with pytest.raises(DeadlineExceeded) as caught:
        await work
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    return caught.value


def test_the_body_is_cancelled_at_the_instant_and_the_error_says_by_which_deadline(
    now: Time, run: Run
) -> None:
    async def main() -> None:
        deadline = now.deadline(5)
        now.pass_by(2)
        begun = now.now
        error = await exceeded(in_scopes(deadline))
        assert now.now - begun == 3 * SECOND
        assert error.deadline is deadline
        assert error.elapsed_seconds == 5
        assert isinstance(error.__cause__, asyncio.CancelledError)

    run(main())


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_deadline_that_has_passed_refuses_to_enter(now: Time, run: Run, seconds: float) -> None:
    async def main() -> None:
        deadline = now.deadline(seconds)
        begun = now.now

        async def body() -> None:
            async with deadline.scope():
                pytest.fail("the body ran")

        error = await exceeded(body())
        assert error.deadline is deadline
        assert now.now == begun
        await asyncio.sleep(60)

    run(main())


def test_an_instant_that_comes_while_the_scope_is_entered_refuses_as_well(
    now: Time, run: Run
) -> None:
    async def main() -> None:
        outer, inner = now.deadline(5), now.deadline(5)
        loop = asyncio.get_running_loop()

        def late() -> float:
            now.pass_by(5)
            return now.now / SECOND

        async def body() -> None:
            async with outer.scope():
                loop.time = late  # type: ignore[method-assign]
                async with inner.scope():
                    pytest.fail("the body ran")

        error = await exceeded(body())
        assert error.deadline is outer

    run(main())


def test_a_timer_is_set_for_the_very_instant_and_none_where_it_never_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def record(when: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
            timers.append(when)
            return call_at(when, *arguments, **options)

        monkeypatch.setattr(loop, "call_at", record)
        deadline = Deadline.from_now(60)
        async with Deadline.never().scope(), deadline.scope(), Deadline.never().scope():
            await asyncio.sleep(0)
        assert timers == [deadline.instant]

    asyncio.run(main())


def test_no_other_task_runs_while_a_scope_is_entered(now: Time, run: Run) -> None:
    async def main() -> None:
        others: list[str] = []
        asyncio.get_running_loop().call_soon(others.append, "ran")
        async with now.deadline(5).scope():
            assert others == []

    run(main())


def test_a_body_that_ends_by_itself_raises_nothing_however_late(now: Time, run: Run) -> None:
    async def main() -> None:
        async with now.deadline(5).scope() as deadline:
            await asyncio.sleep(1)
            now.pass_by(60)
        assert deadline.is_expired()

    run(main())


def test_a_body_that_blocked_past_the_instant_is_cancelled_where_it_awaits_next(
    now: Time, run: Run
) -> None:
    reached = []

    async def main() -> None:
        async with now.deadline(5).scope():
            now.pass_by(60)
            reached.append("blocked")
            await forever()

    with pytest.raises(DeadlineExceeded):
        run(main())
    assert reached == ["blocked"]


OWN = [TimeoutError("mine"), ValueError("mine"), DeadlineExceeded(Deadline.never())]


@pytest.mark.parametrize("own", OWN, ids=lambda own: type(own).__name__)
@pytest.mark.parametrize("when", ["in time", "late", "when cancelled"])
def test_the_bodys_own_error_passes_through(now: Time, run: Run, own: Exception, when: str) -> None:
    async def main() -> None:
        async with now.deadline(5).scope():
            if when == "late":
                now.pass_by(60)
            if when == "when cancelled":
                try:
                    await forever()
                finally:
                    raise own
            raise own

    with pytest.raises(type(own)) as caught:
        run(main())
    assert caught.value is own


def test_another_cancellation_passes_through_untouched(now: Time, run: Run) -> None:
    seen = []

    async def work() -> None:
        try:
            async with now.deadline(5).scope():
                try:
                    await forever()
                except asyncio.CancelledError as error:
                    seen.append(error)
                    now.pass_by(60)
                    raise
        except asyncio.CancelledError as error:
            seen.append(error)
            raise

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel("stop")
        await asyncio.wait([task])
        assert task.cancelled()
        assert task.cancelling() == 1

    run(main())
    assert seen[0] is seen[1]
    assert seen[0].args == ("stop",)


@pytest.mark.parametrize(("ours", "theirs"), [(5, 6), (6, 5)])
def test_another_cancellation_stays_one_also_when_the_body_is_still_ending(
    now: Time, run: Run, ours: float, theirs: float
) -> None:
    async def work() -> None:
        async with now.deadline(ours).scope():
            try:
                await forever()
            finally:
                await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(work())
        asyncio.get_running_loop().call_later(theirs, task.cancel)
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_cancellation_that_was_asked_for_before_is_not_the_deadlines(
    now: Time, run: Run, seconds: float
) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        deadline = now.deadline(seconds)
        task.cancel()
        async with deadline.scope():
            now.pass_by(60)
            await forever()

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())


def test_a_cancelled_task_that_clears_up_may_use_a_scope(now: Time, run: Run) -> None:
    async def work() -> None:
        try:
            await forever()
        finally:
            error = await exceeded_here(now.deadline(5))
            assert error.elapsed_seconds == 5

    async def exceeded_here(deadline: Deadline) -> DeadlineExceeded:
        with pytest.raises(DeadlineExceeded) as caught:
            await in_scopes(deadline)
        return caught.value

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())


def test_an_awaitable_that_is_cancelled_by_itself_is_no_deadline(now: Time, run: Run) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with now.deadline(5).scope():
                await future

    run(main())


NEVER = math.inf


async def outcome(
    now: Time, scopes: tuple[float, ...], stop: float, end: float, stop_first: bool
) -> "str | int":
    """Return how a body ends: by which scope, counted from the outermost, or `done` or `stopped`.

    It would end by itself after `end` seconds and is cancelled by somebody else after `stop`.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    deadlines = [now.deadline(seconds) for seconds in scopes]
    handles = []

    def stop_later() -> None:
        if stop != NEVER:
            handles.append(loop.call_later(stop, task.cancel))

    if stop_first:
        stop_later()
    try:
        async with AsyncExitStack() as stack:
            for deadline in deadlines:
                await stack.enter_async_context(deadline.scope())
            if not stop_first:
                stop_later()
            await asyncio.sleep(end)
    except asyncio.CancelledError:
        assert task.uncancel() == 0
        return "stopped"
    except DeadlineExceeded as error:
        (index,) = [i for i, deadline in enumerate(deadlines) if deadline is error.deadline]
        return index
    finally:
        assert task.cancelling() == 0
        for handle in handles:
            handle.cancel()
    return "done"


def expected(scopes: tuple[float, ...], stop: float, end: float) -> "str | int":
    first = min(scopes)
    if first > 0 and stop <= min(first, end):
        return "stopped"
    return scopes.index(first) if first <= end else "done"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_who_comes_first_wins_and_of_one_instant_the_others_cancellation_then_the_outer_scope(
    now: Time, run: Run, depth: int
) -> None:
    async def main() -> None:
        instants = (0, 1, 2, NEVER)
        cases = product(product(instants, repeat=depth), instants[1:], (1, 2), (False, True))
        for scopes, stop, end, stop_first in cases:
            found = await outcome(now, scopes, stop, end, stop_first)
            assert found == expected(scopes, stop, end), (scopes, stop, end, stop_first)

    run(main())


def test_the_outer_scope_wins_where_both_have_passed_while_the_loop_did_not_run(
    now: Time, run: Run
) -> None:
    async def main() -> None:
        outer, inner = now.deadline(2), now.deadline(1)
        caught = []

        async def body() -> None:
            async with outer.scope():
                try:
                    async with inner.scope():
                        now.pass_by(60)
                        await forever()
                except DeadlineExceeded as error:
                    caught.append(error)

        error = await exceeded(body())
        assert error.deadline is outer
        assert caught == []

    run(main())


def test_the_outer_scope_wins_where_an_inner_one_is_refused_because_both_have_passed(
    now: Time, run: Run
) -> None:
    async def main() -> None:
        outer, inner = now.deadline(2), now.deadline(1)
        tries = 0

        async def body() -> None:
            nonlocal tries
            async with outer.scope():
                now.pass_by(60)
                while True:
                    tries += 1
                    try:
                        await in_scopes(inner)
                    except DeadlineExceeded:
                        assert tries < 10, "the outer scope is never heard"

        error = await exceeded(body())
        assert error.deadline is outer
        assert tries == 1

    run(main())


def test_an_inner_scope_ends_alone_and_the_outer_body_goes_on(now: Time, run: Run) -> None:
    async def main() -> None:
        outer, inner = now.deadline(5), now.deadline(1)

        async def body() -> None:
            async with outer.scope():
                error = await exceeded(in_scopes(inner))
                assert error.deadline is inner
                await forever()

        error = await exceeded(body())
        assert error.deadline is outer
        assert error.elapsed_seconds == 5

    run(main())


def test_asyncios_own_timeout_around_a_scope_of_the_same_instant_wins(now: Time, run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(5):
                await in_scopes(now.deadline(5))
        assert type(caught.value) is TimeoutError

    run(main())


def test_a_scope_ends_the_tasks_of_a_group_inside(now: Time, run: Run) -> None:
    ended = []

    async def child() -> None:
        try:
            await forever()
        finally:
            ended.append(True)

    async def body(deadline: Deadline) -> None:
        async with deadline.scope(), asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())

    async def main() -> None:
        deadline = now.deadline(5)
        error = await exceeded(body(deadline))
        assert error.deadline is deadline

    run(main())
    assert ended == [True, True]


def test_a_body_that_swallows_the_cancellation_goes_on_without_a_limit(now: Time, run: Run) -> None:
    async def main() -> float:
        begun = now.now
        async with now.deadline(5).scope():
            try:
                await forever()
            except asyncio.CancelledError:
                await asyncio.sleep(60)
        return (now.now - begun) / SECOND

    assert run(main()) == 65


def test_a_scope_is_entered_once(now: Time, run: Run) -> None:
    async def main() -> None:
        scope = now.deadline(5).scope()
        async with scope:
            with pytest.raises(RuntimeError, match="already been entered"):
                await scope.__aenter__()
        with pytest.raises(RuntimeError, match="already been entered"):
            await scope.__aenter__()

    run(main())


def test_a_scope_needs_a_task() -> None:
    entering = Deadline.from_now(5).scope().__aenter__()
    with pytest.raises(RuntimeError, match="no running event loop"):
        entering.send(None)


def test_an_async_check_passes_before_the_instant_and_raises_at_it(now: Time, run: Run) -> None:
    async def main() -> None:
        deadline = now.deadline(5)
        now.pass_by(4.999)
        await deadline.async_check_or_raise()
        now.pass_by(0.001)
        error = await exceeded(deadline.async_check_or_raise())
        assert error.deadline is deadline

    run(main())


@pytest.mark.parametrize("who", ["before", "meanwhile"])
def test_an_async_check_gives_a_cancelled_task_its_cancellation(
    now: Time, run: Run, who: str
) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        if who == "before":
            task.cancel()
        else:
            asyncio.get_running_loop().call_soon(task.cancel)
        await now.deadline(0).async_check_or_raise()

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.wait([task])
        assert task.cancelled()

    run(main())


def test_an_async_check_lets_other_tasks_run(now: Time, run: Run) -> None:
    async def main() -> None:
        deadline = now.deadline(5)
        done = False

        async def other() -> None:
            nonlocal done
            done = True

        task = asyncio.create_task(other())
        checks = 0
        while not done:
            await deadline.async_check_or_raise()
            checks += 1
            assert checks < 10
        await task

    run(main())


def test_a_scope_on_asyncios_own_loop_ends_no_earlier_than_its_deadline() -> None:
    async def main() -> None:
        later, soon = Deadline.from_now(600), Deadline.from_now(0.05)
        error = await exceeded(in_scopes(later, soon))
        assert error.deadline is soon
        assert soon.is_expired()
        assert error.elapsed_seconds >= 0.05

    asyncio.run(main())

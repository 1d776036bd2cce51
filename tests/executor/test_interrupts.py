"""Ctrl-C and cancellations at every point of a call: nothing is lost, nobody hangs."""

import _weakrefset
import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

from budget_cpython.deadline import Deadline
from budget_cpython.executor import (
    BoundedToolExecutor,
    ToolOutcome,
    tool_options,
    tool_timeout,
    with_timeout,
)
from budget_cpython.executor.slots import Places
from budget_cpython.executor.threads import Job
from tests.executor.support import PATIENCE_S, Empty, eventually, hung, status, turn
from tests.paths import ROOT

Ctrl = KeyboardInterrupt
NOT_OURS = (threading.__file__, _weakrefset.__file__)  # where an interrupt breaks or is dropped


def interrupt(work: Callable[[], object], point: int) -> tuple[bool, BaseException | None]:
    """Run a function in a thread and interrupt it once; return whether, and what it raised.

    Python runs a signal's handler where a function begins and where a call of a built-in one has
    returned: those are the points, and a profiler is told of each. What hangs fails.
    """
    raised: list[BaseException] = []
    points = count()
    over = reached = False

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal reached
        if over or event not in ("call", "c_return") or frame.f_code.co_filename in NOT_OURS:
            return
        if next(points) == point:
            reached = True
            sys.setprofile(None)
            raise Ctrl

    def run() -> None:
        nonlocal over
        sys.setprofile(profile)
        try:
            work()
            over = True
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            over = True
            raised.append(error)
        sys.setprofile(None)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
    gc.disable()  # what is raised as garbage is collected goes nowhere
    try:
        thread.start()
        thread.join(PATIENCE_S)
    finally:
        gc.enable()
    assert not thread.is_alive(), f"point {point}: it hangs"
    return reached, raised[0] if raised else None


def quick() -> str:
    return "quick"


@pytest.mark.parametrize("thread", ["idle", "new"])
def test_ctrl_c_anywhere_in_execute_leaves_no_place_taken(
    thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if thread == "new":
        monkeypatch.setattr("budget_cpython.executor.threads._idle", Empty())
    cooperative = tool_options(cooperative=True)(lambda token: token.remaining_s())
    for tool in (quick, cooperative):
        for point in count():
            executor = BoundedToolExecutor(max_abandoned=1)
            work = partial(executor.execute, tool, {}, *turn(), 60)
            reached, error = interrupt(work, point)
            eventually(lambda: executor.running == executor.abandoned == 0)  # noqa: B023
            assert executor.execute(quick, {}, *turn(), 60).value == "quick"
            assert type(error) is (Ctrl if reached else type(None))
            if not reached:
                break
        assert point > 30


def test_ctrl_c_anywhere_in_a_call_that_times_out_leaves_the_place_to_the_tool() -> None:
    for point in count():
        executor = BoundedToolExecutor(max_abandoned=1)
        with hung() as tool:
            reached, error = interrupt(partial(executor.execute, tool, {}, *turn(), 0.002), point)
            if tool.started.acquire(blocking=False):
                assert executor.running + executor.abandoned == 1
        eventually(lambda: executor.running == executor.abandoned == 0)  # noqa: B023
        assert type(error or executor.hook_error) is (Ctrl if reached else type(None))
        if not reached:
            break
    assert point > 30


@pytest.mark.parametrize("thread", ["idle", "new"])
def test_ctrl_c_anywhere_in_a_limited_function_leaves_no_place_taken(
    thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if thread == "new":
        monkeypatch.setattr("budget_cpython.executor.threads._idle", Empty())
    for point in count():
        places = kept(monkeypatch)
        limited = with_timeout(quick, 60, max_abandoned=1)
        reached, error = interrupt(limited, point)
        eventually(lambda: places[0].running == places[0].abandoned == 0)  # noqa: B023
        assert limited() == "quick"
        assert type(error) is (Ctrl if reached else type(None))
        if not reached:
            break
    assert point > 20


def kept(monkeypatch: pytest.MonkeyPatch) -> list[Places]:
    """Return a list that gets the places of the functions that are limited from now on."""
    made: list[Places] = []

    def make(limit: int | None) -> Places:
        made.append(Places(limit))
        return made[-1]

    monkeypatch.setattr("budget_cpython.executor.timeout.Places", make)
    return made


@pytest.mark.parametrize("way", ["execute", "with_timeout"])
def test_ctrl_c_anywhere_in_the_wait_for_a_place_leaves_no_watcher(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "with_timeout":  # a wait that is over at once; the limit has not passed before it
        monkeypatch.setattr(Deadline, "remaining_seconds", lambda self: 0.0)
    for point in count():
        kept_places = kept(monkeypatch)
        executor = BoundedToolExecutor(max_abandoned=1)
        limited = with_timeout(lambda tool: tool.run(), 600, max_abandoned=1)
        places = executor._bounds.places if way == "execute" else kept_places[0]
        first = Job(places)
        places.enter(first, lambda: 0)
        with hung() as tool:
            work = (
                partial(executor.execute, tool, {}, *turn(), 0.002)
                if way == "execute"
                else partial(limited, tool)
            )
            reached, error = interrupt(work, point)
        assert (places.running, places.abandoned, places._watchers) == (1, 0, [])
        places.free(first)
        assert reached == (type(error) is Ctrl)
        if not reached:
            break
    assert point > 20


def test_ctrl_c_right_after_the_tool_has_ended_hangs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Job.is_done

    def is_done(self: Job, within_s: float) -> bool:
        assert real(self, within_s)
        raise Ctrl

    monkeypatch.setattr(Job, "is_done", is_done)
    executor = BoundedToolExecutor()
    for work in (partial(executor.execute, quick, {}, *turn()), with_timeout(quick, 60)):
        assert type(interrupt(work, -1)[1]) is Ctrl
    assert executor.running == executor.abandoned == 0


@pytest.fixture
def ring() -> Iterator[Callable[[], object]]:
    """Return what interrupts the main thread, once, from another."""
    heard: list[int] = []
    main = threading.main_thread().ident
    assert main is not None

    def hear(number: int, frame: object) -> None:
        if not heard:
            heard.append(number)
            raise Ctrl

    def knock() -> None:
        while not heard:  # one that comes right before the main thread waits does not wake it
            signal.pthread_kill(main, signal.SIGALRM)
            time.sleep(0.01)

    before = signal.signal(signal.SIGALRM, hear)
    yield knock
    signal.signal(signal.SIGALRM, before)


def test_a_signal_while_a_tool_hangs_leaves_it_behind(ring: Callable[[], object]) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    with hung() as slow:

        def tool() -> None:
            ring()
            slow.run()

        with pytest.raises(Ctrl):
            executor.execute(tool, {}, budget, state, trace_id="t")
        assert (executor.running, executor.abandoned) == (0, 1)
        assert status(state, "t") == "timed_out"
    eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"


def test_a_signal_while_a_function_hangs_leaves_it_behind(
    ring: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = kept(monkeypatch)
    with hung() as slow:

        @tool_timeout(600)
        def read() -> None:
            ring()
            slow.run()

        with pytest.raises(Ctrl):
            read()
        assert (places[0].running, places[0].abandoned) == (0, 1)
    eventually(lambda: places[0].abandoned == 0)


BOMBARDMENT = """
import contextvars, random, signal, sys, threading, time
from budget_cpython.executor import BoundedToolExecutor, with_timeout
from budget_cpython.executor import timeout
from tests.executor.support import eventually, turn

class Ctrl(BaseException):
    pass

def ring(number, frame):
    global armed
    if armed:
        armed = False  # nobody can clean up who is interrupted while doing so
        raise Ctrl

def tool():
    return 1

places = []
class Places(timeout.Places):
    def __init__(self, limit):
        super().__init__(limit)
        places.append(self)

timeout.Places = Places
armed = False
signal.signal(signal.SIGALRM, ring)
signal.signal(signal.SIGUSR1, ring)
executor = BoundedToolExecutor(max_abandoned=None)
places.append(executor._bounds.places)
limited = with_timeout(tool, 60, max_abandoned=None)
main, over = threading.main_thread().ident, False

def knock():
    while not over:
        time.sleep(random.random() * 0.002)
        signal.pthread_kill(main, signal.SIGUSR1)

knocker = threading.Thread(target=knock)
knocker.start()
hits = 0
for number in range(int(sys.argv[1])):
    budget, state = turn()
    work = (lambda: executor.execute(tool, {}, budget, state)) if number % 2 else limited
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0004 + 1e-6)
        contextvars.copy_context().run(work)
        armed = False
    except (Ctrl, RuntimeError):
        armed = False
        hits += 1
    armed = False
over = True
knocker.join()
signal.setitimer(signal.ITIMER_REAL, 0)
eventually(lambda: not any(one.running or one.abandoned for one in places))
assert len(places) == 2
print(hits)
"""


def test_a_bombardment_of_signals_leaves_no_place_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMBARDMENT, "10000"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine; what hangs fails."""
    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE_S))


def run_with_places(main: Callable[[BoundedToolExecutor], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine, and see that every place is free at the end."""
    executor = BoundedToolExecutor()
    run(lambda: main(executor))
    eventually(lambda: executor.running == executor.abandoned == 0)


async def five_steps() -> str:
    for _ in range(5):
        await asyncio.sleep(0)
    return "done"


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("tool", [five_steps, quick, forever])
@pytest.mark.parametrize("cap_s", [None, 60, 0.001])
def test_a_cancellation_at_any_step_is_never_swallowed(tool: Any, cap_s: float | None) -> None:
    async def main(executor: BoundedToolExecutor) -> None:
        for steps in range(15):
            call = asyncio.create_task(executor.execute_async(tool, {}, *turn(), cap_s))
            for _ in range(steps):
                await asyncio.sleep(0)
            cancelled = call.cancel()
            await asyncio.wait({call})
            assert call.cancelled() == cancelled, f"after {steps} steps"

    run_with_places(main)


@pytest.mark.parametrize("steps", range(8))
def test_a_cancellation_as_a_place_becomes_free_is_never_swallowed(steps: int) -> None:
    async def main() -> None:
        executor = BoundedToolExecutor(max_abandoned=1)
        first = Job(executor._bounds.places)
        executor._bounds.places.enter(first, lambda: 0)
        call = asyncio.create_task(executor.execute_async(five_steps, {}, *turn(), 60))
        await asyncio.sleep(0)
        executor._bounds.places.free(first)
        for _ in range(steps):
            await asyncio.sleep(0)
        assert call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert executor.running == executor.abandoned == 0
        assert executor._bounds.places._watchers == []

    run(main)


def others() -> set["asyncio.Task[Any]"]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


@pytest.mark.parametrize("cooperative", [False, True])
def test_a_task_that_is_cancelled_before_it_began_is_a_failed_call(cooperative: bool) -> None:
    async def main() -> None:
        budget, state = turn()
        late: list[ToolOutcome] = []
        executor = BoundedToolExecutor(on_late=late.append)

        async def tool(**arguments: object) -> None:
            raise AssertionError("it began")

        tool_options(cooperative=cooperative)(tool)
        around = others()
        call = asyncio.create_task(executor.execute_async(tool, {}, budget, state, trace_id="t"))
        await asyncio.sleep(0)
        (task,) = others() - around - {call}
        task.cancel()
        outcome = await call
        assert (outcome.status, type(outcome.error)) == ("failed", asyncio.CancelledError)
        assert status(state, "t") == "completed"
        assert (executor.running, executor.abandoned, late) == (0, 0, [])

    run(main)


@pytest.mark.parametrize("steps", range(4))
def test_all_tasks_that_are_cancelled_at_once_free_their_places_once(steps: int) -> None:
    async def main() -> None:
        budget, state = turn()
        late: list[ToolOutcome] = []
        executor = BoundedToolExecutor(on_late=late.append)
        around = others()
        call = asyncio.create_task(executor.execute_async(forever, {}, budget, state))
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in others() - around:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (executor.running, executor.abandoned) == (0, 0)
        assert len(late) == len(state.late_receipts) == 0

    run(main)

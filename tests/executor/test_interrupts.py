"""Ctrl-C while a tool runs, and cancellations at every step: no slot is lost, nothing hangs."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from budget_cpython.executor import (
    BoundedToolExecutor,
    NoSlotError,
    ToolOutcome,
    tool_options,
    tool_timeout,
)
from tests.executor.support import eventually, hung, status, turn

Ctrl = KeyboardInterrupt


def quick() -> str:
    return "quick"


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


def test_a_signal_while_a_function_hangs_leaves_it_behind(ring: Callable[[], object]) -> None:
    with hung() as slow:

        @tool_timeout(600, max_abandoned=1)
        def read() -> None:
            ring()
            slow.run()

        with pytest.raises(Ctrl):
            read()
        with pytest.raises(NoSlotError, match="1 tools have outlived their time"):
            read()


async def five_steps() -> str:
    for _ in range(5):
        await asyncio.sleep(0)
    return "done"


async def forever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("tool", [five_steps, quick, forever])
@pytest.mark.parametrize("cap_s", [None, 60, 0.001])
async def test_a_cancellation_at_any_step_is_never_swallowed(
    tool: Any, cap_s: float | None
) -> None:
    executor = BoundedToolExecutor()
    for steps in range(15):
        call = asyncio.create_task(executor.execute_async(tool, {}, *turn(), cap_s))
        for _ in range(steps):
            await asyncio.sleep(0)
        cancelled = call.cancel()
        await asyncio.wait({call})
        assert call.cancelled() == cancelled, f"after {steps} steps"
    while executor.running or executor.abandoned:  # noqa: ASYNC110 - a thread may still end
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancellation_as_a_slot_becomes_free_is_never_swallowed(steps: int) -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    executor._slots.take("first", lambda: 0)
    call = asyncio.create_task(executor.execute_async(five_steps, {}, *turn(), 60))
    await asyncio.sleep(0)
    executor._slots.free("first")
    for _ in range(steps):
        await asyncio.sleep(0)
    assert call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert executor.running == executor.abandoned == 0
    assert executor.waiting == 0


def others() -> set["asyncio.Task[Any]"]:
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


@pytest.mark.parametrize("cooperative", [False, True])
async def test_a_task_that_is_cancelled_before_it_began_is_a_failed_call(cooperative: bool) -> None:
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


@pytest.mark.parametrize("steps", range(4))
async def test_all_tasks_that_are_cancelled_at_once_free_their_slots_once(steps: int) -> None:
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

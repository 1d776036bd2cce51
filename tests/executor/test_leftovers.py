"""What a call leaves behind once it is over: no watchers, no threads for ever, no arguments."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from budget_cpython.executor import BoundedToolExecutor, with_timeout
from budget_cpython.executor.slots import Slots, SlotsBusyError
from budget_cpython.executor.threads import MAX_IDLE, DaemonThreads
from tests.executor.support import PATIENCE_S, eventually, turn


class Bulky:
    """An argument that one would like to be rid of."""


def take(bulky: Bulky) -> None:
    assert bulky


def fail(bulky: Bulky) -> None:
    raise ValueError(bulky)


async def fail_async(bulky: Bulky) -> None:
    fail(bulky)


def execute(tool: Callable[[Bulky], None], bulky: Bulky) -> None:
    BoundedToolExecutor().execute(tool, {"bulky": bulky}, *turn())


def execute_async(tool: Callable[[Bulky], None], bulky: Bulky) -> None:
    async def main() -> None:  # a loop's frames would keep what it returns
        await BoundedToolExecutor().execute_async(tool, {"bulky": bulky}, *turn())

    asyncio.run(main())


def limit(tool: Callable[[Bulky], None], bulky: Bulky) -> None:
    with suppress(ValueError):
        with_timeout(tool, 60)(bulky)


@contextmanager
def uncollected() -> Iterator[None]:
    """Have nothing freed that only the garbage collector would find."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("way", "tool"),
    [
        (execute, take),
        (execute, fail),
        (execute_async, take),
        (execute_async, fail),
        (execute_async, fail_async),
        (limit, take),
        (limit, fail),
    ],
)
def test_the_arguments_of_a_call_are_freed_with_its_outcome(way: Any, tool: Any) -> None:
    with uncollected():
        bulky = Bulky()
        left = weakref.ref(bulky)
        way(tool, bulky)
        del bulky
        eventually(lambda: left() is None)  # its thread may have it for a moment


async def test_calls_that_wait_in_vain_leave_no_watchers() -> None:
    slots = Slots(1)
    slots.take("first", lambda: 0)
    for _ in range(3):
        with pytest.raises(SlotsBusyError):
            slots.take("second", lambda: 0)
        assert slots.waiting == 0
        with pytest.raises(SlotsBusyError):
            await slots.take_async("second", lambda: 0)
    assert slots.waiting == 0
    assert slots.running == 1


async def test_a_slot_that_becomes_free_goes_to_a_call_that_waits() -> None:
    slots = Slots(1)
    slots.take("first", lambda: 0)
    thread = threading.Thread(target=slots.take, args=("second", lambda: PATIENCE_S))
    thread.start()
    eventually(lambda: slots.waiting)
    slots.free("first")
    thread.join(PATIENCE_S)
    asyncio.get_running_loop().call_soon(slots.free, "second")
    await slots.take_async("third", lambda: PATIENCE_S)
    assert (slots.running, slots.waiting) == (1, 0)


def test_what_has_ended_is_not_abandoned() -> None:
    slots = Slots(1)
    slots.take("call", lambda: 0)
    slots.free("call")
    slots.abandon("call")
    assert (slots.running, slots.abandoned) == (0, 0)


def test_a_thread_is_idle_when_its_work_is_done() -> None:
    threads = DaemonThreads()
    used = {threads.submit(threading.current_thread).result(PATIENCE_S) for _ in range(20)}
    assert len(used) == 1


def test_only_so_many_threads_stay() -> None:
    threads = DaemonThreads()
    gate = threading.Event()
    used: list[threading.Thread] = []

    def work() -> None:
        used.append(threading.current_thread())
        assert gate.wait(PATIENCE_S)

    futures = [threads.submit(work) for _ in range(MAX_IDLE + 3)]
    eventually(lambda: len(used) == MAX_IDLE + 3)
    gate.set()
    wait(futures)
    eventually(lambda: sum(thread.is_alive() for thread in used) == MAX_IDLE)

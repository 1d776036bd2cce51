"""What a call leaves behind once it is over: no watchers, no threads for ever, no arguments."""

import asyncio
import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from budget_cpython.executor import BoundedToolExecutor, NoPlaceError, threads, with_timeout
from budget_cpython.executor.slots import Places
from budget_cpython.executor.threads import Job
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


def test_calls_that_wait_in_vain_leave_no_watchers() -> None:
    places = Places(1)
    first, second = Job(places), Job(places)
    places.enter(first, lambda: 0)
    for _ in range(3):
        with pytest.raises(NoPlaceError):
            places.enter(second, lambda: 0)
    assert places._watchers == []

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(NoPlaceError):
                await places.enter_async(second, lambda: 0)

    asyncio.run(main())
    assert places._watchers == []
    assert places.running == 1


def test_who_has_waited_for_a_place_is_told_so() -> None:
    places = Places(1)
    first, second, third = Job(places), Job(places), Job(places)
    assert not places.enter(first, lambda: 0)
    waited: list[bool] = []
    thread = threading.Thread(
        target=lambda: waited.append(places.enter(second, lambda: PATIENCE_S))
    )
    thread.start()
    eventually(lambda: places._watchers)
    places.free(first)
    thread.join(PATIENCE_S)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(places.free, second)
        waited.append(await places.enter_async(third, lambda: PATIENCE_S))

    asyncio.run(main())
    assert waited == [True, True]
    assert places._watchers == []


def test_a_job_that_was_lost_gives_its_place_back() -> None:
    places = Places(1)
    with uncollected():
        job = Job(places)
        places.enter(job, lambda: 0)
        assert places.running == 1
        del job
        assert places.running == 0


def test_what_has_ended_is_not_abandoned() -> None:
    places = Places(1)
    job = Job(places)
    places.enter(job, lambda: 0)
    places.free(job)
    places.abandon(job)
    assert (places.running, places.abandoned) == (0, 0)


class Noted(Job):
    """A job that notes its thread, and how many threads are idle when its end is told."""

    def __init__(self) -> None:
        super().__init__(Places(1))
        self.idle: int | None = None
        self.thread: threading.Thread | None = None
        self.signal = self.note

    def note(self) -> None:
        self.idle = len(threads._idle)
        self._done.release()

    def work(self) -> None:
        self.thread = threading.current_thread()


def did(job: Noted) -> threading.Thread:
    """Return the thread that a job has run in."""
    job.start()
    assert job.is_done(PATIENCE_S)
    assert job.thread
    return job.thread


class Worker(threads._Worker):
    """One that a test has begun itself."""


class OurIdle(deque[Any]):
    """Idle threads, without those that tests before have left behind and that come back now."""

    def append(self, worker: Any) -> None:
        if isinstance(worker, Worker):
            super().append(worker)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> deque[Any]:
    """Let no thread be idle at first, and give those that are later."""
    workers = OurIdle()
    monkeypatch.setattr(threads, "_idle", workers)
    monkeypatch.setattr(threads, "_Worker", Worker)
    return workers


def test_a_thread_is_idle_when_its_job_is_done(idle: deque[Any]) -> None:
    job = Noted()
    thread = did(job)
    assert job.idle == 1
    assert did(Noted()) is thread


def test_only_so_many_threads_stay(idle: deque[Any]) -> None:
    jobs = [Gated() for _ in range(threads.MAX_IDLE + 3)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.gate.set()
        assert job.is_done(PATIENCE_S)
    assert len(idle) == threads.MAX_IDLE
    for job in jobs[threads.MAX_IDLE :]:
        assert job.thread
        job.thread.join(PATIENCE_S)
        assert not job.thread.is_alive()


class Gated(Noted):
    """A job that lets others run meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def work(self) -> None:
        super().work()
        assert self.gate.wait(PATIENCE_S)


def test_a_job_that_was_called_off_is_not_done() -> None:
    job = Noted()
    job.places.enter(job, lambda: 0)
    job.call_off()
    assert job.places.running == 0
    assert job.run()
    assert job.thread is None

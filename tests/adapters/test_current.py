"""Which blocks are around code: in threads, generators and tasks, beside others' patches."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

import pytest

from budget_cpython import Deadline, budget
from budget_cpython.adapters.current import current_layers


def accounts() -> list[str]:
    return [layer.account for layer in current_layers()]


def in_thread(work: Callable[[], Any], **options: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), **options)
    thread.start()
    thread.join()
    return found[0]


def test_a_block_may_end_inside_one_that_began_later() -> None:
    def parts() -> Iterator[None]:
        with budget("9 calls + 1 h", account="outer"):
            yield

    generator = parts()
    next(generator)
    with budget("9 calls + 2 h", account="inner"):
        assert next(generator, None) is None
        assert accounts() == ["inner"]
    assert accounts() == []
    assert Deadline.current().is_never()


def test_a_block_may_end_in_another_task_than_it_began() -> None:
    async def parts() -> Any:
        async with budget("9 calls + 1 h"):
            yield

    async def main() -> None:
        generator = parts()
        async with budget("9 calls", account="around"):
            await asyncio.create_task(anext(generator))
            await asyncio.create_task(anext(generator, None))
            assert accounts() == ["around"]

    asyncio.run(main())


def test_a_block_may_end_in_another_context_than_it_began() -> None:
    block = budget("9 calls + 1 h")
    Context().run(block.__enter__)
    Context().run(block.__exit__)
    assert accounts() == []


def test_a_block_gives_back_the_deadline_that_was_around_it() -> None:
    with Deadline.from_now(3600).as_current() as around:
        with budget("5 min"):
            assert Deadline.current() < around
        assert Deadline.current() is around


def test_a_thread_that_has_ended_is_forgotten_at_once() -> None:
    gc.disable()
    try:
        with budget("9 calls"):
            thread = threading.Thread(target=accounts)
            thread.start()
            thread.join()
        ended = weakref.ref(thread)
        del thread
        assert ended() is None
    finally:
        gc.enable()


def test_a_thread_that_cannot_start_is_left_as_it_was(monkeypatch: Any) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(accounts()))
    with budget("9 calls"), monkeypatch.context() as patch:
        patch.setattr(threading, "_start_new_thread", refuse)
        patch.setattr(threading, "_start_joinable_thread", refuse, raising=False)
        with pytest.raises(RuntimeError, match="can't start"):
            thread.start()
    thread.start()
    thread.join()
    assert found == [[]]


class Own(threading.Thread):
    """A thread with a `run` of its own."""

    found: list[str]

    def run(self) -> None:
        self.found = accounts()


def test_threads_of_every_kind_are_inside() -> None:
    timed: list[Any] = []
    with budget("9 calls", account="here"):
        thread = Own()
        timer = threading.Timer(0, lambda: timed.append(accounts()))
        for one in (thread, timer):
            one.start()
            one.join()
        assert in_thread(accounts, daemon=True) == ["here"]
    assert (thread.found, timed) == (["here"], [["here"]])


def test_a_thread_stays_inside_a_block_that_has_ended_meanwhile() -> None:
    ended, found = threading.Event(), list[Any]()

    def look() -> None:
        ended.wait()
        found.append(accounts())

    with budget("9 calls + 1 h", account="here"):
        thread = threading.Thread(target=look)
        thread.start()
    ended.set()
    thread.join()
    assert found == [["here"]]


def test_others_may_wrap_what_threads_run(monkeypatch: Any) -> None:
    with budget("9 calls"):
        pass  # from here on threads hand on their blocks
    start = threading.Thread.start

    def wrap(self: threading.Thread) -> None:
        run: Any = getattr(self.run, "__func__", self.run)
        self.run = lambda: run(self)  # type: ignore[method-assign]
        start(self)

    monkeypatch.setattr(threading.Thread, "start", wrap)
    with budget("9 calls", account="here"):
        assert in_thread(accounts) == ["here"]


TRACED = """
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

trace = ContextVar("trace")
submit = ThreadPoolExecutor.submit
seen = []

def traced(self, function, /, *given, **options):
    seen.append(trace.get("none"))
    return submit(self, function, *given, **options)

ThreadPoolExecutor.submit = traced

from budget_cpython import budget

trace.set("one")
with ThreadPoolExecutor(1) as pool, budget("9 calls"):
    pool.submit(int).result()
assert seen == ["one"], seen
"""


def test_what_others_hand_on_at_a_submit_is_kept() -> None:
    subprocess.run([sys.executable, "-c", TRACED], check=True)

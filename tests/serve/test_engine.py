"""An engine that hangs keeps nobody waiting, and takes no more than its threads."""

import asyncio
import gc
import threading
import weakref
from functools import partial

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.daemon_threads import DaemonThreads
from budget_cpython.serve.engine import THREADS, Engine
from tests.serve.support import PATIENCE, put_ahead


class Hung:
    """A ledger that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0
        self.changed = threading.Condition()

    def reserve(self, *arguments: object) -> str:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
        self.may_answer.wait(PATIENCE)
        return "answer"

    async def was_asked(self, times: int) -> None:
        """Wait until it was asked so often."""
        assert await asyncio.to_thread(self._await, times)

    def _await(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.asked >= times, PATIENCE)


class HungAsync:
    """A ledger that never answers."""

    async def reserve(self, *arguments: object) -> None:
        await asyncio.Event().wait()


async def failure_of(engine: Engine) -> LedgerUnavailableError:
    with pytest.raises(LedgerUnavailableError) as caught:
        await engine.call("reserve")
    return caught.value


def test_an_engine_that_hangs_is_unavailable_and_leaves_in_doubt_what_was_done() -> None:
    hung = Hung()

    async def hang() -> LedgerUnavailableError:
        failing = asyncio.create_task(failure_of(Engine(hung, PATIENCE)))
        await hung.was_asked(1)
        put_ahead(PATIENCE)
        return await failing

    for waiting, seconds in ((hang(), PATIENCE), (failure_of(Engine(HungAsync(), 0.01)), 0.01)):
        error = asyncio.run(waiting)
        assert error.applied is None
        assert f" {seconds:g} s" in str(error)
    hung.may_answer.set()


def test_what_waited_for_a_thread_too_long_is_never_done() -> None:
    hung = Hung()
    engine = Engine(hung, PATIENCE)

    async def rush() -> list[LedgerUnavailableError]:
        failing = asyncio.gather(*(failure_of(engine) for _ in range(3 * THREADS)))
        await hung.was_asked(THREADS)
        put_ahead(PATIENCE)
        return await failing

    async def later() -> str:
        hung.may_answer.set()
        for _ in range(THREADS):
            assert await engine.call("reserve") == "answer"
        return "well"

    applied = [error.applied for error in asyncio.run(rush())]
    assert (applied.count(None), applied.count(False)) == (THREADS, 2 * THREADS)
    assert hung.asked == THREADS
    assert asyncio.run(later()) == "well"
    assert hung.asked == 2 * THREADS


def test_no_more_threads_are_made_than_are_needed() -> None:
    hung = Hung()
    hung.may_answer.set()
    engine = Engine(hung, PATIENCE)
    before = set(threading.enumerate())

    async def in_turn() -> None:
        for _ in range(100):
            await engine.call("reserve")

    asyncio.run(in_turn())
    assert len(set(threading.enumerate()) - before) == 1


def test_nothing_is_kept_of_what_has_failed() -> None:
    class Asked:
        """What a request is about."""

    def fail(asked: Asked) -> None:
        raise ValueError

    asked, threads = Asked(), DaemonThreads("test", 1)
    known = weakref.ref(asked)
    gc.disable()  # which would find what is in a cycle
    try:
        with pytest.raises(ValueError):  # noqa: PT011 - the error itself is of no interest
            threads.submit(partial(fail, asked)).result(PATIENCE)
        del asked
        assert threads.submit(known).result(PATIENCE) is None
    finally:
        gc.enable()


def test_a_caller_who_leaves_leaves_the_rest_as_it_was() -> None:
    hung = Hung()
    engine = Engine(hung, PATIENCE)

    async def leave() -> None:
        task = asyncio.create_task(engine.call("reserve"))
        await hung.was_asked(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    hung.may_answer.set()
    assert asyncio.run(engine.call("reserve")) == "answer"


def test_holds_that_are_over_are_looked_for_time_and_again_whatever_happens() -> None:
    class Counting(Hung):
        def expire(self) -> int:
            self.asked += 1
            if self.asked == 2:
                raise LedgerUnavailableError("it is down")
            if self.asked == 3:
                raise AttributeError("nobody thought of it")
            if self.asked == 4:
                looked.set()
            return 0

    looked = threading.Event()
    ledger = Counting()
    engine = Engine(ledger, PATIENCE)

    async def look() -> None:
        task = asyncio.create_task(engine.expire_for_ever(0.001))
        assert await asyncio.to_thread(looked.wait, PATIENCE)
        task.cancel()

    asyncio.run(look())
    assert ledger.asked >= 4


def test_an_engine_with_an_error_nobody_thought_of_is_not_ready() -> None:
    class Wrong(Hung):
        def limits(self, path: str) -> None:
            raise AttributeError(path)

    assert asyncio.run(Engine(Wrong(), PATIENCE).is_ready()) is False


def test_where_no_thread_can_be_made_nothing_is_done_and_later_all_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hung = Hung()
    hung.may_answer.set()
    engine = Engine(hung, PATIENCE)

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def ask() -> None:
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_more)
            assert (await failure_of(engine)).applied is False
        assert hung.asked == 0
        assert await engine.call("reserve") == "answer"

    asyncio.run(ask())
    assert hung.asked == 1

"""An engine that hangs keeps nobody waiting, and takes no more than its threads."""

import asyncio
import threading

import pytest

from budget_core.ledger_errors import LedgerUnavailableError
from budget_cpython.serve.engine import THREADS, Engine
from tests.serve.support import PATIENCE


class Hung:
    """A ledger that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.was_asked = threading.Event()
        self.asked = 0
        self.lock = threading.Lock()

    def reserve(self, *arguments: object) -> str:
        with self.lock:
            self.asked += 1
        self.was_asked.set()
        self.may_answer.wait(PATIENCE)
        return "answer"


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
    for ledger in (hung, HungAsync()):
        error = asyncio.run(failure_of(Engine(ledger, 0.01)))
        assert error.applied is None
        assert "0.01 s" in str(error)
    hung.may_answer.set()


def test_what_waited_for_a_thread_too_long_is_never_done() -> None:
    hung = Hung()
    engine = Engine(hung, 0.05)

    async def rush() -> list[LedgerUnavailableError]:
        return await asyncio.gather(*(failure_of(engine) for _ in range(3 * THREADS)))

    async def later() -> str:
        hung.may_answer.set()
        for _ in range(THREADS):
            assert await engine.call("reserve") == "answer"
        return "well"

    applied = [error.applied for error in asyncio.run(rush())]
    begun = applied.count(None)
    assert begun + applied.count(False) == 3 * THREADS
    assert hung.asked == begun <= THREADS
    engine._timeout_s = PATIENCE
    assert asyncio.run(later()) == "well"
    assert hung.asked == begun + THREADS


def test_no_more_threads_are_made_than_are_needed() -> None:
    hung = Hung()
    hung.may_answer.set()
    engine = Engine(hung, PATIENCE)
    before = threading.active_count()

    async def in_turn() -> None:
        for _ in range(100):
            await engine.call("reserve")

    asyncio.run(in_turn())
    assert threading.active_count() - before <= 2


def test_a_caller_who_leaves_leaves_the_rest_as_it_was() -> None:
    hung = Hung()
    engine = Engine(hung, PATIENCE)

    async def leave() -> None:
        task = asyncio.create_task(engine.call("reserve"))
        assert await asyncio.to_thread(hung.was_asked.wait, PATIENCE)
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

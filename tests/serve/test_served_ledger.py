"""An engine that hangs makes the ledger unavailable, and takes no more than its threads."""

import asyncio
import threading

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.serve.served_ledger import THREADS, ServedLedger
from tests.serve.support import PATIENCE, put_ahead


class Hung:
    """A ledger that answers once it may."""

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
        """Wait until it was asked that often."""
        assert await asyncio.to_thread(self._await, times)

    def _await(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.asked >= times, PATIENCE)


class HungAsync:
    """A ledger that never answers."""

    async def reserve(self, *arguments: object) -> None:
        await asyncio.Event().wait()


async def failure_of(ledger: ServedLedger) -> LedgerUnavailableError:
    with pytest.raises(LedgerUnavailableError) as caught:
        await ledger.call("reserve")
    return caught.value


def test_an_engine_that_hangs_is_unavailable_and_its_call_is_in_doubt() -> None:
    hung = Hung()

    async def hang() -> LedgerUnavailableError:
        failing = asyncio.create_task(failure_of(ServedLedger(hung, PATIENCE)))
        await hung.was_asked(1)
        put_ahead(PATIENCE)
        return await failing

    for waiting, seconds in (
        (hang(), PATIENCE),
        (failure_of(ServedLedger(HungAsync(), 0.01)), 0.01),
    ):
        error = asyncio.run(waiting)
        assert error.applied is None
        assert f" {seconds:g} s" in str(error)
    hung.may_answer.set()


def test_a_call_that_waits_too_long_for_a_thread_is_not_made() -> None:
    hung = Hung()
    engine = ServedLedger(hung, PATIENCE)

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


def test_a_cancelled_call_leaves_the_ledger_usable() -> None:
    hung = Hung()
    engine = ServedLedger(hung, PATIENCE)

    async def leave() -> None:
        task = asyncio.create_task(engine.call("reserve"))
        await hung.was_asked(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    hung.may_answer.set()
    assert asyncio.run(engine.call("reserve")) == "answer"


def test_expired_holds_are_looked_for_again_after_any_error() -> None:
    class Counting(Hung):
        def expire(self) -> int:
            self.asked += 1
            if self.asked == 2:
                raise LedgerUnavailableError("it is down")
            if self.asked == 3:
                raise AttributeError("unexpected")
            if self.asked == 4:
                looked.set()
            return 0

    looked = threading.Event()
    ledger = Counting()
    engine = ServedLedger(ledger, PATIENCE)

    async def look() -> None:
        task = asyncio.create_task(engine.expire_forever(0.001))
        assert await asyncio.to_thread(looked.wait, PATIENCE)
        task.cancel()

    asyncio.run(look())
    assert ledger.asked >= 4


def test_an_engine_with_an_unexpected_error_is_not_ready() -> None:
    class Wrong(Hung):
        def limits(self, path: str) -> None:
            raise AttributeError(path)

    assert asyncio.run(ServedLedger(Wrong(), PATIENCE).is_ready()) is False


def test_all_who_ask_at_once_whether_it_is_ready_ask_the_engine_once() -> None:
    hung = Hung()
    hung.limits = hung.reserve  # type: ignore[attr-defined]

    async def ask() -> list[bool]:
        ledger = ServedLedger(hung, PATIENCE)
        asking = [asyncio.create_task(ledger.is_ready()) for _ in range(2 * THREADS)]
        await hung.was_asked(1)
        asking.pop(0).cancel()
        hung.may_answer.set()
        answers = await asyncio.gather(*asking)
        return [*answers, await ledger.is_ready()]

    assert asyncio.run(ask()) == [True] * 2 * THREADS
    assert hung.asked == 2

"""How somebody else's code is awaited, and cancelled when a run is over."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.cancellation import CutShortError, call_within, wait_until
from budget_core.agent.envelope import Envelope
from tests_micro.support import raises, raises_async, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOON = 0.02


def envelope(**limits: "Any") -> Envelope:
    return Envelope.open(Budget(last_call=None, **limits))


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_call_may_be_plain_or_async_and_gives_what_it_returns() -> None:
    async def later(value: int, more: int = 0) -> int:
        await asyncio.sleep(0)
        return value + more

    assert await call_within(envelope(), later, 1, 2) == 3
    assert await call_within(envelope(), abs, -1) == 1


async def test_what_a_call_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError("lost")

    await raises_async(KeyError, call_within, envelope(), fail)


def test_an_interrupt_goes_through() -> None:
    for kind in (KeyboardInterrupt, SystemExit):

        def interrupt(kind: "type[BaseException]" = kind) -> None:
            raise kind()

        raises(kind, lambda call: asyncio.run(call_within(envelope(), call)), interrupt)
        asyncio.new_event_loop().close()  # MicroPython keeps what was interrupted


async def test_a_call_is_cut_short_when_its_time_is_over_or_the_run_is_stopped() -> None:
    await raises_async(CutShortError, call_within, envelope(timeout=SOON), hang)
    stopped = envelope()

    async def stop() -> None:
        stopped.stop("Enough.")
        await hang()

    await raises_async(CutShortError, call_within, stopped.child(), stop)


async def test_a_call_that_is_cut_short_says_whether_the_run_is_over_with_it() -> None:
    running = envelope(timeout=60)
    assert (await raises_async(CutShortError, call_within, running, hang, cap_s=0)).reason is None
    expired = envelope(timeout=0)
    error = await raises_async(CutShortError, call_within, expired, hang)
    assert error.reason.kind == "timeout"
    running.stop("Enough.")
    error = await raises_async(CutShortError, call_within, running, hang)
    assert str(error.reason) == "explicit stop: Enough."


async def test_a_call_that_keeps_its_own_time_is_cut_short_only_when_the_run_is_stopped() -> None:
    expired = envelope(timeout=0)

    async def later() -> str:
        for _ in range(3):
            expired.changed()
            await asyncio.sleep(0)
        return "Done."

    assert await call_within(expired, later, timed=False) == "Done."

    async def stop() -> None:
        expired.stop("Enough.")
        await hang()

    error = await raises_async(CutShortError, call_within, expired, stop, timed=False)
    assert error.reason.kind == "explicit_stop"


async def test_time_that_is_given_meanwhile_counts() -> None:
    fake, clock = stopped_clock()
    limited = Envelope.open(Budget(timeout=SOON, last_call=None), clock)

    async def extend() -> str:
        await asyncio.sleep(0)
        limited.extend(timeout=60)
        fake.advance(40)
        await asyncio.sleep(2 * SOON)
        return "Done."

    assert await call_within(limited, extend) == "Done."


async def test_nothing_is_left_to_watch_an_envelope() -> None:
    watched = envelope(timeout=60)
    await call_within(watched, abs, 1)
    await raises_async(CutShortError, call_within, watched, hang, cap_s=0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watched._watchers == []


async def test_a_cancellation_that_comes_with_a_change_is_not_forgotten() -> None:
    for turns in range(5):
        changing = envelope(timeout=60)
        task = asyncio.create_task(wait_until(lambda: None, changing, changing.remaining_s))
        await asyncio.sleep(0)
        changing.changed()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert task.done(), turns
        assert changing._watchers == []


async def test_a_call_that_ends_when_its_caller_is_cancelled_is_waited_for() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    task = asyncio.create_task(call_within(envelope(), work))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        ended.append("caller")
    assert ended == ["work", "caller"]

"""A wait for holds that is cancelled, at each of its steps, on each ledger that is awaited."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.waiting import reserve_waiting
from budget_cpython import Ledger, Limit
from budget_cpython.ledger.http import AsyncHttpLedger
from budget_cpython.ledger.offline_cap import AsyncOfflineCapLedger
from budget_cpython.ledger.threaded import ThreadedLedger
from budget_cpython.serve.app import make_app
from budget_cpython.web.server import running
from tests.ledger.engines import AwaitedPostgres, AwaitedRedis, Engine, Sqlite
from tests.ledger.patience import NO_HURRY, PATIENCE

AMOUNT = {"tokens": 60}
MOST = 500  # steps
Open = Callable[[Path, AsyncExitStack], Any]


class Cancelled:
    """Runs a coroutine, and cancels its task at a step: before it waits there, or after it."""

    def __init__(self, coroutine: Any, step: int, after: bool) -> None:
        self._coroutine = coroutine
        self._step = step
        self._after = after

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        cancel: Any = lambda *_: task.cancel()  # noqa: E731
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                awaited = (
                    self._coroutine.send(sent) if error is None else self._coroutine.throw(error)
                )
            except StopIteration as stop:
                return stop.value
            self._step -= 1
            if self._step == 0:
                if self._after and awaited is not None:
                    awaited.add_done_callback(cancel)
                else:
                    cancel()
            sent = error = None
            try:
                sent = yield awaited
            except BaseException as raised:  # noqa: BLE001 - the coroutine's to handle
                error = raised


def on_redis(folder: Path, stack: AsyncExitStack) -> Any:
    return awaited(AwaitedRedis(folder), stack)


def on_postgres(folder: Path, stack: AsyncExitStack) -> Any:
    return awaited(AwaitedPostgres(folder), stack)


def awaited(engine: Engine, stack: AsyncExitStack) -> Any:
    engine.empty()
    ledger = engine.open().ledger
    stack.push_async_callback(ledger.close)
    return ledger


def on_sqlite(folder: Path, stack: AsyncExitStack) -> Any:
    return ThreadedLedger(stack.enter_context(closing(Sqlite(folder).make())))


def over_http(folder: Path, stack: AsyncExitStack) -> Any:
    url = stack.enter_context(running(make_app(Ledger()), "127.0.0.1:0"))
    return AsyncHttpLedger(url, timeout_s=PATIENCE)


def capped(folder: Path, stack: AsyncExitStack) -> Any:
    return AsyncOfflineCapLedger(on_redis(folder, stack), {"tokens": 10})


def by_itself(ledger: Any) -> Any:
    return ledger.reserve("org", AMOUNT, wait=NO_HURRY)


def by_function(ledger: Any) -> Any:
    return reserve_waiting(ledger, "org", AMOUNT, wait=NO_HURRY)


WAYS = pytest.mark.parametrize("ask", [by_itself, by_function])
MOMENTS = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
ENGINES = pytest.mark.parametrize(
    "open_ledger", [on_redis, on_postgres, on_sqlite, over_http, capped]
)


async def stepped(coroutine: Any, step: int, after: bool) -> Any:
    return await Cancelled(coroutine, step, after)


async def standing(ledger: Any) -> tuple[int, int]:
    """Return what is spent and held."""
    [row] = await ledger.balance("org")
    return row.spent, row.held


@WAYS
@MOMENTS
@ENGINES
def test_nothing_is_left_of_a_wait_that_is_cancelled_as_it_is_granted(
    open_ledger: Open, after: bool, ask: Callable[[Any], Any], tmp_path: Path
) -> None:
    async def play() -> int:
        async with AsyncExitStack() as stack:
            ledger = open_ledger(tmp_path, stack)
            await ledger.set_limits("org", [Limit("tokens", 100)])
            for step in range(1, MOST):
                try:
                    await ledger.release(
                        await asyncio.create_task(stepped(ask(ledger), step, after))
                    )
                except asyncio.CancelledError:
                    assert await standing(ledger) == (0, 0), step
                else:
                    return step
        raise AssertionError("the wait has no end")

    assert asyncio.run(play()) > 1


@WAYS
@ENGINES
def test_nothing_is_left_of_a_wait_that_is_cancelled_while_others_hold(
    open_ledger: Open, ask: Callable[[Any], Any], tmp_path: Path
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            ledger = open_ledger(tmp_path, stack)
            await ledger.set_limits("org", [Limit("tokens", 100)])
            for step in range(1, 4 if open_ledger is over_http else 9):  # it then waits in silence
                other = await ledger.reserve("org", AMOUNT)
                task = asyncio.create_task(stepped(ask(ledger), step, False))
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await standing(ledger) == (0, 60), step
                await ledger.release(other)

    asyncio.run(play())

"""Ask a ledger from an event loop, however it waits and however long."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from budget_core.errors import BudgetError
from budget_core.ledger.errors import LedgerUnavailableError

THREADS = 32
log = logging.getLogger("budget_cpython.serve")


class Engine:
    """A ledger, sync or async, that answers within `timeout_s` or is unavailable.

    A sync one is asked in threads, 32 at once, and has to be safe for that: a slow disk keeps
    nobody else from being answered. What waited for a thread until its time was over is not done.
    """

    def __init__(self, ledger: Any, timeout_s: float) -> None:
        self._ledger = ledger
        self._timeout_s = timeout_s
        self._awaits = inspect.iscoroutinefunction(ledger.reserve)
        self._threads = _Threads(THREADS)

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Return what an operation gives, or raise what it raises."""
        function = getattr(self._ledger, operation)
        if self._awaits:
            return await self._within(function(*arguments), lambda: False)
        future = self._threads.submit(partial(function, *arguments))
        return await self._within(asyncio.wrap_future(future), future.cancel)

    async def _within(self, waiting: Any, call_off: Callable[[], bool]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await waiting
        except TimeoutError as error:
            text = f"the ledger's engine did not answer within {self._timeout_s:g} s"
            raise LedgerUnavailableError(text, error, False if call_off() else None) from error

    async def is_ready(self) -> bool:
        """Tell whether the engine answers; it is asked for an account that there need not be."""
        try:
            await self.call("limits", "readyz")
        except BudgetError as error:
            log.warning("not ready: %s", error)
            return False
        except Exception:
            log.exception("not ready")
            return False
        return True

    async def expire_for_ever(self, every_s: float) -> None:
        """Count holds that are over as spent, time and again, so that others see it soon."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.call("expire")
            except BudgetError as error:
                log.warning("could not look for holds that are over: %s", error)
            except Exception:
                log.exception("could not look for holds that are over")


class _Threads:
    """Daemon threads, made as they are needed, that nobody waits for at the end."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._idle = threading.Semaphore(0)
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        if self._count < self._most and not self._idle.acquire(blocking=False):
            self._make_thread()
        self._queue.put((future, work))
        return future

    def _make_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="microbudget-serve", daemon=True).start()
        except RuntimeError as error:  # the system has no more; those there are go on
            if not self._count:
                text = "no thread can be made to ask the ledger's engine"
                raise LedgerUnavailableError(text, error, False) from error
            return
        self._count += 1

    def _work(self) -> None:
        while True:
            future, work = self._queue.get()
            tell: Callable[[], None] | None = None
            if future.set_running_or_notify_cancel():
                try:
                    tell = partial(future.set_result, work())
                except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
                    tell = partial(future.set_exception, error)
            self._idle.release()  # before the answer: who then asks again finds this thread
            if tell is not None:
                tell()
            del future, work, tell  # a thread that waits keeps nothing alive

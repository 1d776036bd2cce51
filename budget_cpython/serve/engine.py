"""Ask a ledger from an event loop, however it waits and however long."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from budget_core.errors import BudgetError
from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.daemon_threads import DaemonThreads

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
        self._threads = DaemonThreads("microbudget-serve", THREADS)

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Return what an operation gives, or raise what it raises."""
        function = getattr(self._ledger, operation)
        if self._awaits:
            return await self._within(function(*arguments), lambda: False)
        try:
            future = self._threads.submit(partial(function, *arguments))
        except RuntimeError as error:
            text = "no thread can be made to ask the ledger's engine"
            raise LedgerUnavailableError(text, error, False) from error
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

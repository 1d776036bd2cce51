"""The ledger behind the service, asked with a time limit, and the probes of its health."""

import asyncio
import inspect
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from budget_core.errors import BudgetError
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.records import check_wait
from budget_core.ledger.waiting import reserve_waiting, room_of, undoing

THREADS = 32
MAX_WAIT_S = 60
MAX_WAITING = 500  # requests that wait for holds: others have to get through
log = logging.getLogger("microbudget.serve")


def probes(ledger: "ServedLedger | None") -> list[Route]:
    """Return the routes that say whether a server runs, and whether its ledger answers."""

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(request: Request) -> Response:
        ready = ledger is None or await ledger.is_ready()
        return JSONResponse({"status": "ok" if ready else "unavailable"}, 200 if ready else 503)

    return [Route("/healthz", health), Route("/readyz", readiness)]


class ServedLedger:
    """A ledger, sync or async, that is unavailable if it does not answer within `timeout_s`.

    A sync one is called in up to 32 threads, so it must be thread-safe. A reservation with a `wait`
    waits without a thread for what others hold, at most a minute.
    """

    def __init__(self, ledger: Any, timeout_s: float) -> None:
        self._ledger = ledger
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(ledger.reserve)
        self._readiness: asyncio.Future[bool] | None = None
        self._threads = ThreadPoolExecutor(THREADS, "microbudget-serve")

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Return the result of an operation, or raise its error.

        After a timeout `LedgerUnavailableError.applied` is false if the call was still waiting for
        a thread, and `None` if it had begun.
        """
        function = getattr(self._ledger, operation)
        future: Future[Any] | None = None
        if operation == "reserve" and len(arguments) == 5:
            return await self._reserve(*arguments)
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._is_async:
                    return await function(*arguments)
                future = self._threads.submit(copy_context().run, function, *arguments)
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            text = f"the ledger's engine did not answer within {self._timeout_s:g} s"
            applied = False if future is not None and future.cancel() else None
            raise LedgerUnavailableError(text, error, applied) from error

    async def _reserve(
        self, path: str, amounts: Any, key: str, ttl: float, wait: float | None
    ) -> Any:
        wait_s = min(check_wait(wait) / 1000, MAX_WAIT_S)
        if not wait_s or room_of(self._ledger).waiting >= MAX_WAITING:
            return await self.call("reserve", path, amounts, key, ttl)
        ask = undoing(self.call)
        return await reserve_waiting(self._ledger, path, amounts, key, ttl, wait_s, ask)

    async def is_ready(self) -> bool:
        """Tell whether the engine answers, by asking for an account that need not exist.

        All who ask at the same time share one question to the engine: they need no key.
        """
        if self._readiness is None or self._readiness.done():
            self._readiness = asyncio.ensure_future(self._succeeds("limits", "readyz"))
        return await asyncio.shield(self._readiness)

    async def expire_forever(self, every_s: float) -> None:
        """Count expired holds as spent, every `every_s` seconds."""
        while True:
            await asyncio.sleep(every_s)
            await self._succeeds("expire")

    async def _succeeds(self, operation: str, *arguments: Any) -> bool:
        try:
            await self.call(operation, *arguments)
        except BudgetError as error:
            log.warning("%s failed: %s", operation, error)
            return False
        except Exception:
            log.exception("%s failed", operation)
            return False
        return True

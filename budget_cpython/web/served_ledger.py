"""The ledger behind the service, asked with a time limit, and the probes of its health."""

import asyncio
import inspect
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from budget_core.errors import BudgetError
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.hold import check_wait
from budget_core.ledger.waiting import reserve_waiting, room_of, undoing
from budget_cpython.ledger.batching import BatchQueue
from budget_cpython.ledger.operations import OPERATIONS

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


@dataclass(eq=False, slots=True)
class _Asked:
    """An operation in a queue; once it `has_begun` its outcome may be in doubt."""

    operation: str
    arguments: tuple[Any, ...]
    has_begun: bool = False


class ServedLedger:
    """A ledger, sync or async, that is unavailable if it does not answer within `timeout_s`.

    A sync one is called in up to 32 threads, so it must be thread-safe. Operations on one account
    take no thread each: a ledger that `NEVER_WAITS` does them at once, and one with `do_together`
    gets all that have come while it did others, in their order. A reservation with a `wait` waits
    without a thread for what others hold, at most a minute.
    """

    def __init__(self, ledger: Any, timeout_s: float) -> None:
        self._ledger = ledger
        self._timeout_s = timeout_s
        self._is_async = inspect.iscoroutinefunction(ledger.reserve)
        kind = type(ledger)  # not what a view hands on
        self._never_waits = getattr(kind, "NEVER_WAITS", False)
        self._queue: BatchQueue[_Asked, Any] | None = None
        if hasattr(kind, "do_together"):
            self._queue = BatchQueue(self._do_together)
        self._readiness: asyncio.Future[bool] | None = None
        self._threads = ThreadPoolExecutor(THREADS, "microbudget-serve")
        self._in_threads = 0

    @property
    def keeps_order(self) -> bool:
        """Whether operations on an account that begin in turn are done so, without waiting."""
        return self._queue is not None

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Return the result of an operation, or raise its error.

        After a timeout `LedgerUnavailableError.applied` is false if the call was still waiting for
        its turn, and `None` if it had begun.
        """
        if operation == "reserve" and len(arguments) == 5:
            if arguments[4] is not None:
                return await self._reserve(*arguments)
            arguments = arguments[:4]
        if OPERATIONS[operation].is_short:
            if self._never_waits and not self._in_threads:  # one there may keep its lock for long
                return getattr(self._ledger, operation)(*arguments)
            if self._queue is not None:
                return await self._ask(self._queue, _Asked(operation, arguments))
        return await self._call_alone(operation, *arguments)

    async def _ask(self, queue: BatchQueue[_Asked, Any], asked: _Asked) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await queue.ask(asked)
        except TimeoutError as error:
            raise self._late(error, None if asked.has_begun else False) from error

    async def _do_together(self, batch: list[_Asked]) -> list[Any]:
        for asked in batch:
            asked.has_begun = True
        operations = [(asked.operation, asked.arguments) for asked in batch]
        loop, do = asyncio.get_running_loop(), self._ledger.do_together
        found: list[Any] = await loop.run_in_executor(self._threads, do, operations)
        return found

    async def _call_alone(self, operation: str, *arguments: Any) -> Any:
        """Do an operation as the caller's own, in its context."""
        function = getattr(self._ledger, operation)
        future: Future[Any] | None = None
        self._in_threads += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._is_async:
                    return await function(*arguments)
                future = self._threads.submit(copy_context().run, function, *arguments)
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            applied = False if future is not None and future.cancel() else None
            raise self._late(error, applied) from error
        finally:
            self._in_threads -= 1

    def _late(self, error: TimeoutError, applied: bool | None) -> LedgerUnavailableError:
        text = f"the ledger's engine did not answer within {self._timeout_s:g} s"
        return LedgerUnavailableError(text, error, applied)

    async def _reserve(self, path: str, amounts: Any, key: str, ttl: float, wait: float) -> Any:
        wait_s = min(check_wait(wait) / 1000, MAX_WAIT_S)
        if not wait_s or room_of(self._ledger).waiting >= MAX_WAITING:
            return await self.call("reserve", path, amounts, key, ttl)
        ask = self.call if self._queue is None else self._call_alone  # in the caller's context
        return await reserve_waiting(self._ledger, path, amounts, key, ttl, wait_s, undoing(ask))

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

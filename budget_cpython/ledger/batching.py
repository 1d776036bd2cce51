"""Requests of concurrent tasks, or of threads, sent in batches."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from functools import partial
from itertools import islice
from threading import Condition, get_ident
from typing import Any, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.context.process_state import begin_again_in_children

Request = TypeVar("Request")
Result = TypeVar("Result")


class BatchQueue(Generic[Request, Result]):
    """Sends requests in batches: those that come while one is under way wait for the next.

    No request waits for others to come. `send` gets up to `most` requests, the first to come first,
    and returns as many results. An exception among these is raised for its own request, one that
    `send` raises for each request of the batch: the same object. Up to `flights` batches are under
    way at the same time. Each event loop has batches of its own.
    """

    def __init__(
        self,
        send: Callable[[list[Request]], Awaitable[Sequence[Result | Exception]]],
        *,
        most: int = 1000,
        flights: int = 1,
    ) -> None:
        self._make = partial(_LoopQueue[Request, Result], send, most, flights)
        self._of_loops: WeakKeyDictionary[Any, _LoopQueue[Request, Result]] = WeakKeyDictionary()

    async def ask(self, request: Request) -> Result:
        """Return a request's result, or raise its error.

        A request cancelled before it was sent is never sent; later its outcome is unknown.
        """
        loop = asyncio.get_running_loop()
        queue = self._of_loops.get(loop)
        if queue is None:
            queue = self._of_loops[loop] = self._make()
        return await queue.ask(loop, request)


class _LoopQueue(Generic[Request, Result]):
    """What waits and is under way in one event loop."""

    def __init__(
        self,
        send: Callable[[list[Request]], Awaitable[Sequence[Result | Exception]]],
        most: int,
        flights: int,
    ) -> None:
        self._send = send
        self._most = most
        self._most_flights = flights
        self._waiting: deque[tuple[Request, asyncio.Future[Result]]] = deque()
        self._flights: set[asyncio.Task[None]] = set()

    def ask(self, loop: asyncio.AbstractEventLoop, request: Request) -> asyncio.Future[Result]:
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((request, answer))
        self._depart(loop)
        return answer

    def _depart(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a flight if something waits; it takes that once the loop comes to it."""
        if self._waiting and len(self._flights) < self._most_flights:
            flight = loop.create_task(self._fly(loop), context=Context())  # no single caller's
            self._flights.add(flight)
            flight.add_done_callback(self._land)

    def _land(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._depart(flight.get_loop())

    async def _fly(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send one batch after the other until no request waits."""
        while batch := self._board():
            self._depart(loop)
            try:
                results = await self._send([request for request, _ in batch])
                for (_, answer), result in zip(batch, results, strict=True):
                    if not answer.done():
                        _answer(answer, result)
            except Exception as error:  # noqa: BLE001 - those who asked raise it
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            finally:
                for _, answer in batch:
                    answer.cancel()  # after this task was cancelled: the others are done

    def _board(self) -> list[tuple[Request, asyncio.Future[Result]]]:
        """Take the requests of the next batch; those that were cancelled are dropped."""
        batch: list[tuple[Request, asyncio.Future[Result]]] = []
        while self._waiting and len(batch) < self._most:
            request, answer = self._waiting.popleft()
            if not answer.done():
                batch.append((request, answer))
        return batch


def _answer(answer: asyncio.Future[Result], result: Result | Exception) -> None:
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


class ThreadBatchQueue(Generic[Request, Result]):
    """The same for threads: one of those who ask sends for all, the others wait for it.

    `send` is called in the thread of a request of its batch. A thread that asks while it sends, as
    a signal's handler may, sends alone. Where a thread is interrupted while it sends, the others
    of its batch get a `LedgerUnavailableError`: their outcome is unknown.
    """

    def __init__(
        self,
        send: Callable[[list[Request]], Sequence[Result | Exception]],
        *,
        most: int = 1000,
        flights: int = 1,
    ) -> None:
        self._send = send
        self._most = most
        self._most_flights = flights
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have no requests: a forked process has none of the threads that wait."""
        self._changed = Condition()  # held while the attributes below change
        self._waiting: deque[_ThreadRequest[Request, Result]] = deque()
        self._senders: set[int] = set()  # numbers of threads

    @property
    def waiting(self) -> int:
        """The number of requests that wait to be sent."""
        return len(self._waiting)

    def ask(self, request: Request) -> Result:
        """Return a request's result, or raise its error."""
        one = _ThreadRequest[Request, Result](request)
        if one.thread in self._senders:
            self._fly([one])
        else:
            batch: list[_ThreadRequest[Request, Result]] = []
            try:
                self._join(one, batch)
                self._fly(batch)
                self._land(one, batch)
            except BaseException:
                self._land(one, batch)  # again, if an interrupt came during the first
                raise
        if isinstance(one.result, Exception):
            raise one.result
        return cast("Result", one.result)

    def _join(
        self,
        one: "_ThreadRequest[Request, Result]",
        batch: "list[_ThreadRequest[Request, Result]]",
    ) -> None:
        """Wait until a request is done, or fill the batch with it that its thread sends."""
        with self._changed:
            self._waiting.append(one)
            while one.result is None and not self._is_next(one):
                self._changed.wait()
            if one.result is None:
                self._senders.add(one.thread)
                batch += islice(self._waiting, self._most)
                for _ in batch:
                    self._waiting.popleft()

    def _is_next(self, one: "_ThreadRequest[Request, Result]") -> bool:
        """Tell whether a thread sends now, also in a signal's handler while it waits itself."""
        has_room = len(self._senders) < self._most_flights
        return has_room and bool(self._waiting) and self._waiting[0].thread == one.thread

    def _fly(self, batch: "list[_ThreadRequest[Request, Result]]") -> None:
        if not batch:
            return
        results: Sequence[Result | Exception]
        try:
            results = self._send([one.request for one in batch])
        except Exception as error:  # noqa: BLE001 - those who asked raise it
            results = [error] * len(batch)
        for one, result in zip(batch, results, strict=True):
            one.result = result

    def _land(
        self,
        own: "_ThreadRequest[Request, Result]",
        batch: "list[_ThreadRequest[Request, Result]]",
    ) -> None:
        """Wake the other threads: a batch is done or given up, and its thread asks no longer."""
        with self._changed:
            for one in batch:
                if one.result is None:
                    text = "the thread that sent the request was interrupted"
                    one.result = LedgerUnavailableError(text, None, None)
            waiting = (one for one in self._waiting if one is not own and one.result is None)
            self._waiting = deque(waiting)
            self._senders.discard(own.thread)
            self._changed.notify_all()


class _ThreadRequest(Generic[Request, Result]):
    """A thread's request, and what came of it."""

    __slots__ = ("request", "result", "thread")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.thread = get_ident()
        self.result: Result | Exception | None = None

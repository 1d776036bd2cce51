"""A run that is awaited for its result, or iterated over for its events."""

import asyncio
from asyncio import Queue, Task
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, cast

from budget_core.agent.run import OperativeResult
from budget_cpython.agent.envelope import Envelope
from budget_cpython.agent.parallel import Event, ParallelRun


class RunHandle(Coroutine[Any, Any, OperativeResult]):
    """A run to await for its result, any number of times, or to iterate over for its events.

    `cancel` ends it early. A loop over the events that is left early cancels the run. The last
    event, `completed` or `stopped`, has the `result`.
    """

    def __init__(self, run: ParallelRun) -> None:
        self._run = run
        self._finish: Coroutine[Any, Any, OperativeResult] | None = None
        self._task: Task[OperativeResult] | None = None
        self._over: asyncio.Event | None = None

    @property
    def budget(self) -> Envelope:
        """The run's envelope: to watch, `extend`, `stop` or pause it from outside."""
        return cast(Envelope, self._run.budget)

    @property
    def result(self) -> OperativeResult | None:
        """What the run came to, `None` until it has ended."""
        return self._run.result

    def cancel(self, reason: str = "") -> None:
        """Stop the run and what it has in flight; any thread may."""
        self._run.cancel(reason)

    def __await__(self) -> Generator[Any, None, OperativeResult]:
        return self._ended().__await__()

    def send(self, value: Any) -> Any:
        """Continue, as event loops do."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Continue with an error, as event loops do."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """Leave the run where it is."""
        if self._finish is not None:
            self._finish.close()

    def _coroutine(self) -> Coroutine[Any, Any, OperativeResult]:
        if self._finish is None:
            self._finish = self._ended()
        return self._finish

    async def _ended(self) -> OperativeResult:
        if self._task is not None:
            await asyncio.wait({self._task})
        if self._over is not None:
            await self._over.wait()
        if self._run.result is not None:
            return self._run.result
        self._over = asyncio.Event()
        try:
            return await self._run.finish()
        finally:
            self._over.set()

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._task or self._over or self._run.result is not None:
            raise RuntimeError("the events of a run go to one loop over them, once")
        return self._events()

    async def _events(self) -> AsyncGenerator[Event, None]:
        queue: Queue[Event | None] = Queue()
        self._run.watcher = queue.put_nowait
        task = self._task = asyncio.create_task(self._run.finish())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

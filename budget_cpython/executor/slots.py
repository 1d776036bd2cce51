"""Bound how many tools run or were abandoned: each has a slot until it has ended."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import TIMEOUT_MAX, Event, Lock
from typing import Any

from budget_core.checks import check_limit
from budget_core.waking import from_any_thread
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.executor.threads import THREADS


class SlotsBusyError(Exception):
    """There is no slot for a call: too many tools run, or outlived their time and still run."""


class Slots:
    """So many slots, each for a tool that runs, or that was abandoned and still runs.

    Any tool may hang, so its slot is taken before it starts. A slot goes by the call that has it.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = check_limit("max_abandoned", limit)
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have all slots free, in a process that was forked: the tools run on in the parent."""
        self._lock = Lock()
        self._taken: dict[object, bool] = {}  # whether it was abandoned
        self._watchers: list[Callable[[], object]] = []

    @property
    def running(self) -> int:
        """Tools that run within their time."""
        return sum(not lost for lost in list(self._taken.values()))  # of one instant

    @property
    def abandoned(self) -> int:
        """Tools that outlived their time and still run."""
        return sum(list(self._taken.values()))

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return len(self._watchers)

    def take(self, call: object, left_s: Callable[[], float]) -> None:
        """Take a slot, and wait for one if need be.

        Raises `SlotsBusyError` once `left_s()` is 0, or as soon as abandoned tools have all slots.
        """
        if self._try_take(call):
            return
        changed = Event()
        with self._watched(changed.set):
            while not self._try_take(call):
                if not changed.wait(min(left_s(), TIMEOUT_MAX)):
                    raise self._busy()
                changed.clear()

    async def take_async(self, call: object, left_s: Callable[[], float]) -> None:
        """Take a slot as `take` does, and let the running loop go on meanwhile."""
        if self._try_take(call):
            return
        changed = asyncio.Event()
        with self._watched(from_any_thread(changed.set)):
            while not self._try_take(call):
                if not await happens(changed, left_s()):
                    raise self._busy()
                changed.clear()

    def start(self, call: object, work: Callable[[], Any]) -> "Future[Any]":
        """Have a thread do the work of a call that has a slot, and free that in the end.

        Raises `RuntimeError` if the system gives no thread; the slot is free then.
        """

        def work_and_free() -> Any:
            try:
                return work()
            finally:
                self.free(call)

        try:
            return THREADS.submit(work_and_free)
        except RuntimeError:
            self.free(call)
            raise

    def abandon(self, call: object) -> None:
        """Note that a tool has outlived its time; nothing changes if it has just ended."""
        with self._lock:
            if call in self._taken:
                self._taken[call] = True
        self._tell()

    def free(self, call: object) -> None:
        """Give a slot back, if it is taken."""
        with self._lock:
            self._taken.pop(call, None)
        self._tell()

    def _tell(self) -> None:
        for watcher in list(self._watchers):
            watcher()

    def _try_take(self, call: object) -> bool:
        with self._lock:
            if self.limit is None or len(self._taken) < self.limit:
                self._taken[call] = False
                return True
            lost = self.abandoned
            if lost >= self.limit:
                raise SlotsBusyError(
                    f"{lost} tools have outlived their time and still run "
                    f"(max_abandoned={self.limit})"
                )
            return False

    @contextmanager
    def _watched(self, watcher: Callable[[], object]) -> Iterator[None]:
        """Have `watcher()` called whenever a slot changes."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def _busy(self) -> SlotsBusyError:
        return SlotsBusyError(
            f"{self.running} tools run and {self.abandoned} have outlived their time: no slot "
            f"became free in time (max_abandoned={self.limit})"
        )


async def happens(event: asyncio.Event, within_s: float) -> bool:
    """Wait that long for an event, and tell whether it was set."""
    try:
        async with asyncio.timeout(None if within_s > TIMEOUT_MAX else within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True

"""Bound how many tools can be left behind: one that starts takes a place until it has ended."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from threading import TIMEOUT_MAX, Lock
from typing import Any
from weakref import WeakSet, ref

from budget_core.checks import check_limit
from budget_core.errors import BudgetError


class NoPlaceError(BudgetError):
    """A tool was not started: too many outlived their time, or run still."""


class Places:
    """So many places; each holds a tool that runs, or one that was abandoned and still runs.

    Whoever starts a tool cannot know whether it will ever end: the place is taken before. A job
    that was lost on the way (to Ctrl-C) gives its place back when it is collected.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = check_limit("max_abandoned", limit)
        self._lock = Lock()
        self._taken: dict[ref[Any], Any] = {}  # the job itself where it was abandoned
        self._watchers: list[Callable[[], object]] = []
        _all.add(self)

    @property
    def running(self) -> int:
        """Tools that run within their time."""
        return sum(job is None for job in list(self._taken.values()))  # of one instant

    @property
    def abandoned(self) -> int:
        """Tools that outlived their time and still run."""
        return sum(job is not None for job in list(self._taken.values()))

    def enter(self, job: Any, left_s: Callable[[], float]) -> bool:
        """Take a place for a job, and wait for one if need be; return whether it was.

        Raises `NoPlaceError` once `left_s()` is 0, or as soon as every place is lost.
        """
        if self._take(job, None):
            return False
        changed = Lock()
        changed.acquire()
        watcher = changed.release
        try:
            while not self._take(job, watcher):
                if not changed.acquire(timeout=min(left_s(), TIMEOUT_MAX)):
                    raise self._busy()
        finally:
            self._forget(watcher)
        return True

    async def enter_async(self, job: Any, left_s: Callable[[], float]) -> bool:
        """Take a place as `enter` does, and let the running loop go on meanwhile."""
        if self._take(job, None):
            return False
        changed = asyncio.Event()
        watcher = partial(wake, asyncio.get_running_loop(), changed)
        try:
            while not self._take(job, watcher):
                if not await happens(changed, left_s()):
                    raise self._busy()
                changed.clear()
        finally:
            self._forget(watcher)
        return True

    def abandon(self, job: Any) -> None:
        """Note that a tool has outlived its time; nothing changes if it has just ended."""
        with self._lock:
            if job.place in self._taken:
                self._taken[job.place] = job
        self._tell()

    def free(self, job: Any) -> None:
        """Give the place back: the tool has ended."""
        with self._lock:
            self._taken.pop(job.place, None)
            job.place = None
        if self._watchers:
            self._tell()

    def _take(self, job: Any, watcher: Callable[[], object] | None) -> bool:
        """Take a place if there is one; else `watcher()` is called once that may have changed."""
        with self._lock:
            if self.limit is None or len(self._taken) < self.limit:
                # The callback is no Python code, in which Ctrl-C could get lost.
                job.place = ref(job, self._taken.pop)
                self._taken[job.place] = None
                return True
            lost = self.abandoned
            if lost >= self.limit:
                raise NoPlaceError(
                    f"{lost} tools have outlived their time and still run "
                    f"(max_abandoned={self.limit})"
                )
            if watcher:
                self._watchers.append(watcher)
            return False

    def _forget(self, watcher: Callable[[], object]) -> None:
        with self._lock:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    def _after_fork(self) -> None:
        """Begin again: what ran here goes on in the parent only."""
        self._lock = Lock()
        self._taken, self._watchers = {}, []

    def _busy(self) -> NoPlaceError:
        return NoPlaceError(
            f"{self.running} tools run and {self.abandoned} have outlived their time: no place "
            f"became free in time (max_abandoned={self.limit})"
        )

    def _tell(self) -> None:
        with self._lock:
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()


def _begin_again() -> None:
    for places in list(_all):
        places._after_fork()


_all: WeakSet[Places] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)


def wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from any thread; nobody is told where the loop is closed."""
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        pass


async def happens(event: asyncio.Event, within_s: float) -> bool:
    """Wait that long for an event, and tell whether it was set."""
    try:
        async with asyncio.timeout(None if within_s > TIMEOUT_MAX else within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True

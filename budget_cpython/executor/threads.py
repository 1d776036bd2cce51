"""Daemon threads that run one job after another, and that nobody waits for.

`ThreadPoolExecutor` joins its threads when the interpreter exits: one hung tool would hang it.
"""

import contextvars
import os
from collections import deque
from collections.abc import Callable
from threading import TIMEOUT_MAX, Lock, Thread

from budget_cpython.executor.slots import Places

MAX_IDLE = 8


class Job:
    """Work for a thread, in the context of whoever made it, holding a place until it has ended.

    A subclass says in `work` what is done. `signal` is called when it has been, and the thread is
    idle by then. A job that is `given_up` ends its thread.
    """

    place: object = None

    def __init__(self, places: Places) -> None:
        self.places = places
        self.given_up = False
        self.context = contextvars.copy_context()
        self._begun = Lock()
        self._done = Lock()
        self._done.acquire()
        self.signal: Callable[[], object] = self._done.release

    def work(self) -> None:
        """Do it; raises nothing."""
        raise NotImplementedError

    def run(self) -> bool:
        """Do the work in this thread; return whether the thread may be used again."""
        if not self._begun.acquire(blocking=False):
            return True
        try:
            self.context.run(self.work)
        finally:
            self.places.free(self)
        return not self.given_up

    def start(self) -> None:
        """Have the work done by an idle thread, or by a new one.

        Raises `RuntimeError` where the system gives no more threads.
        """
        try:
            worker = _idle.pop()
        except IndexError:
            _Worker(self)
        else:
            worker.hand(self)

    def call_off(self) -> None:
        """Give the place back, unless the work has begun: then whoever does it will."""
        if self._begun.acquire(blocking=False):
            self.places.free(self)

    def is_done(self, within_s: float) -> bool:
        """Wait that long for the work to be done, and tell whether it is; once."""
        return self._done.acquire(timeout=min(within_s, TIMEOUT_MAX))


class _Worker:
    __slots__ = ("_job", "_ready")

    def __init__(self, job: Job) -> None:
        self._ready = Lock()
        self._ready.acquire()
        self._job: Job | None = job
        Thread(target=self._work, name="microbudget-tool", daemon=True).start()

    def hand(self, job: Job) -> None:
        self._job = job
        self._ready.release()

    def _work(self) -> None:
        again = True
        while self._job and again:
            job, self._job = self._job, None
            try:
                again = job.run() and len(_idle) < MAX_IDLE
                if again:
                    _idle.append(self)
            finally:
                job.signal()
            if again:
                del job  # a thread that waits keeps nothing alive
                self._ready.acquire()  # for ever: a timeout would cost more than all of this


_idle: deque[_Worker] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads are not in the child

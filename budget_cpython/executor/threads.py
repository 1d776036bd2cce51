"""Daemon threads that run tools, one after another.

`ThreadPoolExecutor` joins its threads when the interpreter exits: one hung tool would hang it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import TIMEOUT_MAX, Lock, Thread
from typing import Any

from budget_cpython.context.process_state import begin_again_in_children

MAX_IDLE = 8

Work = Callable[[], Any]
_Job = tuple[Future[Any], Work]


class DaemonThreads:
    """Threads that are made when needed, and that the interpreter's exit does not wait for.

    At most `MAX_IDLE` stay when they have nothing to do.
    """

    def __init__(self) -> None:
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have no threads, as in a forked child."""
        self._lock = Lock()
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._idle = 0

    def submit(self, work: Work) -> "Future[Any]":
        """Have a thread do some work in a copy of this context; return a future of its result.

        Raises `RuntimeError` if the system gives no thread.
        """
        future: Future[Any] = Future()
        job = (future, partial(copy_context().run, work))
        with self._lock:
            is_idle = self._idle > 0
            self._idle -= is_idle
        if is_idle:
            self._queue.put(job)
        else:
            first = [job]  # which the thread empties: it keeps its arguments
            Thread(target=self._work, args=(first,), name="microbudget-tool", daemon=True).start()
        return future

    def _work(self, first: "list[_Job]") -> None:
        stay = True
        while stay:
            future, work = first.pop() if first else self._queue.get()
            try:
                tell = partial(future.set_result, work())
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                tell = partial(future.set_exception, error)
            with self._lock:  # idle before the answer is there: the next call finds this thread
                stay = self._idle < MAX_IDLE
                self._idle += stay
            tell()
            del future, work, tell  # a thread that waits keeps nothing alive


def ends_within(future: "Future[Any]", seconds: float) -> bool:
    """Wait that long for the end of some work, and tell whether it came."""
    try:
        future.exception(min(seconds, TIMEOUT_MAX))
    except TimeoutError:
        return False
    return True


THREADS = DaemonThreads()
"""The threads that all executors and limited functions share."""

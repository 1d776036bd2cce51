"""Daemon threads that run one piece of work after another.

`ThreadPoolExecutor` joins its threads when the interpreter exits: one hung tool would hang it.
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

MAX_IDLE = 8

Work = Callable[[], Any]


class DaemonThreads:
    """Threads that are made when needed, kept while idle, and waited for by nobody.

    At most `most` run at a time, `None` is unlimited; further work waits in a queue. At most
    `MAX_IDLE` stay when they have nothing to do.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self.forget()

    def forget(self) -> None:
        """Begin again without threads, as a forked child has to."""
        self._lock = Lock()
        self._queue: SimpleQueue[tuple[Future[Any], Work]] = SimpleQueue()
        self._threads = 0
        self._idle = 0  # below 0: so much work waits for a thread

    def submit(self, work: Work) -> "Future[Any]":
        """Have a thread do some work, and return a future of its result.

        Raises `RuntimeError` if the system gives no thread, and there is none that could do it.
        """
        future: Future[Any] = Future()
        with self._lock:
            enough = self._most is not None and self._threads >= self._most
            if self._idle <= 0 and not enough:
                try:
                    Thread(target=self._work, name=self._name, daemon=True).start()
                    self._threads += 1
                    self._idle += 1
                except RuntimeError:
                    if self._most is None or not self._threads:
                        raise
            self._idle -= 1
        self._queue.put((future, work))
        return future

    def _work(self) -> None:
        stay = True
        while stay:
            future, work = self._queue.get()
            tell: Work | None = None
            if future.set_running_or_notify_cancel():
                try:
                    tell = partial(future.set_result, work())
                except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                    tell = partial(future.set_exception, error)
            with self._lock:  # idle before the answer is there: the next call finds this thread
                stay = self._idle < MAX_IDLE
                self._idle += stay
                self._threads -= not stay
            if tell is not None:
                tell()
            del future, work, tell  # a thread that waits keeps nothing alive

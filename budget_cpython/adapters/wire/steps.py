"""Steps of the work on a large body, between which an event loop and other threads run."""

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

STEP: Final = 100  # items that are worked on at once, by code of Python
_SLICE: Final = 4_096  # and by code of C
_STEP_S: Final = 0.0005
_LONGEST_S: Final = 0.01
_thread = threading.local()
T = TypeVar("T")


def pause() -> None:
    """Sleep for as long as this thread has worked since its last pause, if that is 0.5 ms or more.

    So a large body takes at most half of the interpreter's time from others. Nothing happens in the
    thread of a running event loop, which works on small bodies only.
    """
    now = time.thread_time()
    worked = now - getattr(_thread, "begun_s", 0.0)
    if worked < _STEP_S:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(min(worked, _LONGEST_S))
        _thread.begun_s = time.thread_time()


def in_steps(items: Iterable[T]) -> Iterator[T]:
    """Yield items, with a pause after each `STEP` of them."""
    for count, item in enumerate(items, 1):
        yield item
        if count % STEP == 0:
            pause()


def taken(waiting: list[T]) -> Iterator[T]:
    """Take the last item of a list until it is empty, in steps; it may grow meanwhile."""
    while waiting:
        for _ in range(STEP):
            if not waiting:
                return
            yield waiting.pop()
        pause()


def slices(items: list[T]) -> Iterator[list[T]]:
    """Yield a list in parts that code of C goes through at once, with pauses between them."""
    if len(items) <= _SLICE:
        yield items
    else:
        for start in range(0, len(items), _SLICE):
            yield items[start : start + _SLICE]
            pause()
    if len(items) >= STEP:
        pause()

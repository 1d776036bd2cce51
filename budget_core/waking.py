"""Wake what waits in an event loop: from any thread, and after a time."""

import asyncio

from budget_core.durations import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def from_any_thread(callback: "Callable[[], object]") -> "Callable[[], object]":
    """Return a function that any thread may call, and that has the running loop call `callback`."""
    soon: Any = getattr(asyncio.get_event_loop(), "call_soon_threadsafe", None)

    def call() -> None:
        try:
            soon(callback)
        except RuntimeError:
            pass  # the loop is closed: nothing waits in it any more

    return call if soon else callback


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Return when an event is set, at the latest after so many seconds; it is set then too."""
    # not wait_for: CPython 3.11's forgets a cancellation that comes with the event
    alarm = None if seconds == inf else asyncio.create_task(_set_after(seconds, event))
    try:
        await event.wait()
    finally:
        if alarm is not None:
            alarm.cancel()


async def _set_after(seconds: float, event: asyncio.Event) -> None:
    await asyncio.sleep(seconds)
    event.set()


def cancellations() -> int:
    """Return how often the running task was cancelled; 0 without one, or where none counts."""
    try:
        count: Any = getattr(asyncio.current_task(), "cancelling", None)
    except RuntimeError:  # there is no event loop
        return 0
    return count() if count else 0


def raise_lost(before: int) -> None:
    """Raise a cancellation since there were `before`: CPython 3.11's `wait_for` may forget it."""
    if cancellations() > before:
        raise asyncio.CancelledError

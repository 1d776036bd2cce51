"""Work on a request beside the event loop that waits for it."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from budget_cpython.vendors.body import LARGE

T = TypeVar("T")


def has_event_loop() -> bool:
    """Tell whether an event loop of asyncio runs in this thread."""
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def aside(size: int) -> Callable[..., Any]:
    """Return the runner of a function on `size` bytes, to be awaited: above `LARGE` it is a thread.

    Without an event loop, and for less, the function runs at once.
    """
    return asyncio.to_thread if size > LARGE and has_event_loop() else _at_once


async def _at_once(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)

"""The `with budget(...)` blocks around this code, and how threads and pools keep them."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from multiprocessing.pool import ThreadPool
from types import MethodType
from typing import Any

from budget_cpython import entered
from budget_cpython.adapters.layer import Layer
from budget_cpython.deadline import Deadline, set_current
from budget_cpython.entered import WithEntry


def enter(layer: Layer, seconds: float | None) -> WithEntry:
    """Have calls draw on a layer from here on, until the entry is left, for so many seconds."""
    carry_blocks()
    if seconds is None:
        entry = entered.enter(layer, None)
    else:
        entry = set_current(Deadline.from_now(seconds), layer)
    if entry.owner is not None:
        _carry_by_anyio()
    return entry


@contextmanager
def inside(layers: Sequence[Layer]) -> Iterator[None]:
    """Have budgeted calls draw on layers meanwhile, as inside a block."""
    entries = [enter(layer, None) for layer in layers]
    try:
        yield
    finally:
        for entry in reversed(entries):
            entered.leave(entry)


def current_layers() -> tuple[Layer, ...]:
    """Return the layers of the blocks around this code, the outermost first."""
    return tuple(entry.layer for entry in entered.entered() if entry.layer is not None)


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs inside the blocks, and the deadline, that are around this code.

    Without a block it is the function itself.
    """
    return entered.carried(function, entered.entered()) if current_layers() else function


_LOCK = threading.Lock()
_done = False


def carry_blocks() -> None:
    """Have threads, and the pools of threads, hand on the blocks and the deadline.

    Their methods are replaced once, when a block is first entered. A thread of a pool works within
    the blocks of each piece of work, not of those in which it was started.
    """
    global _done
    with _LOCK:
        if not _done:
            _carry_by_start()
            _carry_by_submit()
            _carry_by_thread_pool()
            _done = True


def _carry_by_start() -> None:
    start = threading.Thread.start

    @wraps(start)
    def start_inside(self: threading.Thread) -> None:
        inside = carried(self.run)
        if inside == self.run:
            start(self)
            return

        def run(self: threading.Thread) -> None:
            vars(self).pop("run", None)  # or the thread would refer to itself for good
            inside()

        self.run = MethodType(run, self)  # type: ignore[method-assign]
        try:
            start(self)
        except BaseException:
            vars(self).pop("run", None)
            raise

    threading.Thread.start = start_inside  # type: ignore[method-assign]


def _carry_by_submit() -> None:
    submit: Callable[..., Any] = ThreadPoolExecutor.submit
    plain = entered.handing_on_nothing(submit)  # a thread that this starts serves other blocks too

    @wraps(submit)
    def submit_inside(
        self: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        return plain(self, carried(function), *given, **options)

    ThreadPoolExecutor.submit = submit_inside  # type: ignore[method-assign, assignment]


def _carry_by_thread_pool() -> None:
    kind: Any = ThreadPool
    kind.__init__ = entered.handing_on_nothing(kind.__init__)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):  # what all others call
        setattr(kind, name, _carrying(getattr(kind, name)))


def _carry_by_anyio() -> None:
    """Have anyio's threads hand on the blocks of generators, which no copy of a context has."""
    kind: Any = getattr(sys.modules.get("anyio._backends._asyncio"), "AsyncIOBackend", None)
    run = getattr(kind, "run_sync_in_worker_thread", None)
    if run is None or hasattr(run, "microbudget_carries"):
        return

    @wraps(run)
    def call(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        return run(carried(function), *given, **options)

    call.microbudget_carries = True  # type: ignore[attr-defined]
    kind.run_sync_in_worker_thread = staticmethod(call)


def _carrying(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, func: Callable[..., Any], *given: Any, **options: Any) -> Any:
        return method(self, carried(func), *given, **options)

    return call

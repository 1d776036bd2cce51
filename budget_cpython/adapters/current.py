"""The blocks around this code, which calls draw on, and how threads take them along."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import Context, ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from budget_cpython.adapters.layer import Layer
from budget_cpython.deadline import Current, Deadline, current_or_none


@dataclass(frozen=True)
class Entered:
    """One entry into a block: what is drawn on, and the deadline that ends with it."""

    layer: Layer
    deadline: Current | None


_ENTERED: ContextVar[tuple[Entered, ...]] = ContextVar("microbudget.blocks", default=())


def enter(layer: Layer, seconds: float | None) -> None:
    """Have calls draw on a layer from here on, until `leave`, and end after so many seconds."""
    deadline = None
    if seconds is not None:
        deadline = Deadline.from_now(seconds).as_current()
        deadline.__enter__()
    _ENTERED.set((*_ENTERED.get(), Entered(layer, deadline)))


def leave() -> None:
    """Leave the block that was entered last."""
    *around, entered = _ENTERED.get()
    _ENTERED.set(tuple(around))
    if entered.deadline is not None:
        entered.deadline.__exit__()


@contextmanager
def inside(layers: Sequence[Layer]) -> Iterator[None]:
    """Have budgeted calls draw on layers meanwhile, as inside a block."""
    if layers:
        carry_blocks()
    for layer in layers:
        enter(layer, None)
    try:
        yield
    finally:
        for _ in layers:
            leave()


def current_layers() -> tuple[Layer, ...]:
    """Return the layers of the blocks around this code, the outermost first."""
    return tuple(entered.layer for entered in _ENTERED.get())


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs inside the blocks, and the deadline, that are around this code.

    Without any it is the function itself.
    """
    blocks, deadline = _ENTERED.get(), current_or_none()
    if not blocks and deadline is None:
        return function

    def run(*given: Any, **options: Any) -> Any:
        before = _ENTERED.set(blocks)
        try:
            with deadline.as_current() if deadline is not None else nullcontext():
                return function(*given, **options)
        finally:
            _ENTERED.reset(before)

    return run


_LOCK = threading.Lock()
_done = False


def carry_blocks() -> None:
    """Have `Thread.start` and `ThreadPoolExecutor.submit` hand on the blocks and the deadline.

    Both are replaced once, when a block is first entered. A thread of an executor works within the
    blocks of each `submit`, not of the one that happened to start it.
    """
    global _done
    with _LOCK:
        if not _done:
            _carry_by_start()
            _carry_by_submit()
            _done = True


def _carry_by_start() -> None:
    start = threading.Thread.start

    @wraps(start)
    def start_inside(self: threading.Thread) -> None:
        run = carried(self.run)
        if run != self.run:
            self.run = run  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = start_inside  # type: ignore[method-assign]


def _carry_by_submit() -> None:
    submit: Callable[..., Any] = ThreadPoolExecutor.submit

    @wraps(submit)
    def submit_inside(
        self: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        # a thread that this starts serves other blocks later: it begins in none
        return Context().run(submit, self, carried(function), *given, **options)

    ThreadPoolExecutor.submit = submit_inside  # type: ignore[method-assign, assignment]

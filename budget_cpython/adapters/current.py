"""The `with budget(...)` blocks around this code, and how threads and executors keep them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import MethodType
from typing import Any

from budget_cpython.adapters.layer import Layer
from budget_cpython.deadline import Deadline, current_or_none, replace_current, set_current


@dataclass(frozen=True)
class Entered:
    """One entry into a `with` block: what is drawn on, and the deadline that was around it."""

    layer: Layer
    around: Deadline | None


_ENTERED: ContextVar[tuple[Entered, ...]] = ContextVar("microbudget.blocks", default=())


def enter(layer: Layer, seconds: float | None) -> None:
    """Have calls draw on a layer from here on, until `leave`, and end after so many seconds."""
    _ENTERED.set((*_ENTERED.get(), Entered(layer, current_or_none())))
    if seconds is not None:
        set_current(Deadline.from_now(seconds))


def leave(layer: Layer) -> None:
    """Leave the block of a layer that was entered last.

    It may be around others, as in a generator that ends. Where it was not entered, as in the other
    task that ends an asynchronous generator, nothing happens.
    """
    entered = list(_ENTERED.get())
    for index in reversed(range(len(entered))):
        if entered[index].layer is layer:
            around = entered.pop(index).around
            if index < len(entered):
                entered[index] = Entered(entered[index].layer, around)
            else:
                replace_current(around)
            _ENTERED.set(tuple(entered))
            break


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
        for layer in reversed(layers):
            leave(layer)


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
        with _only_inside(blocks, deadline):
            return function(*given, **options)

    return run


@contextmanager
def _only_inside(blocks: tuple[Entered, ...], deadline: Deadline | None) -> Iterator[None]:
    """Be inside these blocks and this deadline alone."""
    before = _ENTERED.get(), current_or_none()
    _ENTERED.set(blocks)
    replace_current(deadline)
    try:
        yield
    finally:
        _ENTERED.set(before[0])
        replace_current(before[1])


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

    @wraps(submit)
    def submit_inside(
        self: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        inside = carried(function)
        with _only_inside((), None):  # a thread that this starts serves other blocks later
            return submit(self, inside, *given, **options)

    ThreadPoolExecutor.submit = submit_inside  # type: ignore[method-assign, assignment]

"""The `with budget(...)` blocks around this code, and how threads and pools keep them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from multiprocessing.pool import ThreadPool
from threading import Thread
from types import MethodType
from typing import Any

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.context import entered
from budget_cpython.context.deadline import Deadline, set_current
from budget_cpython.context.entered import WithEntry
from budget_cpython.context.process_state import replace


def enter(account: BudgetAccount, seconds: float | None) -> WithEntry:
    """Have calls draw on an account from here on, until the entry is left, for so many seconds."""
    carry_blocks()
    if seconds is None:
        entry = entered.enter(account, None)
    else:
        entry = set_current(Deadline.from_now(seconds), account)
    if entry.owner is not None:
        _carry_by_anyio()
    return entry


@contextmanager
def inside(accounts: Sequence[BudgetAccount]) -> Iterator[None]:
    """Have budgeted calls draw on accounts meanwhile, as inside a block."""
    entries = [enter(account, None) for account in accounts]
    try:
        yield
    finally:
        for entry in reversed(entries):
            entered.leave(entry)


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs inside the blocks, and the deadline, that are around this code.

    Without a block it is the function itself.
    """
    return entered.carried(function, entered.entered()) if entered.current_accounts() else function


def carry_blocks() -> None:
    """Have threads, and the pools of threads, hand on the blocks and the deadline.

    Their methods are replaced once, when a block is first entered. A thread of a pool works within
    the blocks of each piece of work, not of those in which it was started.
    """
    replace(Thread, "start", _starting)
    replace(ThreadPoolExecutor, "submit", _submitting)
    replace(ThreadPool, "__init__", entered.handing_on_nothing)
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):  # what all others call
        replace(ThreadPool, name, _carrying)


def _starting(start: Callable[[Thread], None]) -> Callable[[Thread], None]:
    @wraps(start)
    def start_inside(self: Thread) -> None:
        inside = carried(self.run)
        if inside == self.run:
            start(self)
            return

        def run(self: Thread) -> None:
            vars(self).pop("run", None)  # or the thread would refer to itself for good
            inside()

        self.run = MethodType(run, self)  # type: ignore[method-assign]
        try:
            start(self)
        except BaseException:
            vars(self).pop("run", None)
            raise

    return start_inside


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    plain = entered.handing_on_nothing(submit)  # a thread that this starts serves other blocks too

    @wraps(submit)
    def submit_inside(
        self: ThreadPoolExecutor, function: Callable[..., Any], /, *given: Any, **options: Any
    ) -> Any:
        return plain(self, carried(function), *given, **options)

    return submit_inside


def _carry_by_anyio() -> None:
    """Have anyio's threads hand on the blocks of generators, which no copy of a context has."""
    kind: Any = getattr(sys.modules.get("anyio._backends._asyncio"), "AsyncIOBackend", None)
    if hasattr(kind, "run_sync_in_worker_thread"):
        replace(kind, "run_sync_in_worker_thread", _running)


def _running(run: Callable[..., Any]) -> Any:
    @wraps(run)
    def call(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
        return run(carried(function), *given, **options)

    return staticmethod(call)


def _carrying(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, func: Callable[..., Any], *given: Any, **options: Any) -> Any:
        return method(self, carried(func), *given, **options)

    return call

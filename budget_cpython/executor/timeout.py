"""Give any function a time limit: a decorator and a wrapper, for sync and async ones."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from budget_core.durations import in_ms
from budget_core.errors import DeadlineExceeded
from budget_cpython.context.deadline import Deadline
from budget_cpython.executor.options import Function, is_async
from budget_cpython.executor.slots import Slots, SlotsBusyError
from budget_cpython.executor.threads import ends_within

Overrides = Mapping[str, float | None]


class ToolTimeoutError(DeadlineExceeded):
    """A function did not end within its time limit: `tool` is its name, `timeout_s` the limit."""

    def __init__(self, tool: str, timeout_s: float, deadline: Deadline, text: str = "") -> None:
        super().__init__(deadline)
        self.tool = tool
        self.timeout_s = timeout_s
        self.args = (text or f"{tool} did not end within {timeout_s:g} s",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tool, self.timeout_s, self.deadline, *self.args), vars(self)


class NoSlotError(ToolTimeoutError):
    """A function was not started within its time limit, and has done nothing.

    Too many calls of it run, or outlived their time and still run: see `max_abandoned`.
    """


def tool_timeout(
    timeout_s: float | None,
    *,
    name: str | None = None,
    overrides: Overrides | None = None,
    max_abandoned: int | None = 8,
) -> Callable[[Function], Function]:
    """Return a decorator that gives a function a time limit; see `with_timeout`."""
    return functools.partial(
        with_timeout,
        timeout_s=timeout_s,
        name=name,
        overrides=overrides,
        max_abandoned=max_abandoned,
    )


def with_timeout(
    function: Function,
    timeout_s: float | None,
    *,
    name: str | None = None,
    overrides: Overrides | None = None,
    max_abandoned: int | None = 8,
) -> Function:
    """Return the function with a time limit of `timeout_s` seconds a call.

    `0` and `None` set no limit. `overrides` is looked into at each call, by the tool's `name` (the
    function's own unless given): a number that it has there holds instead. Where a deadline is
    current (`Deadline.as_current`) and earlier, that holds.

    A call that takes too long raises `ToolTimeoutError`. An async function is cancelled. Any other
    runs in a thread, which is left behind and whose result is dropped: at most `max_abandoned` at a
    time, and as many calls run at once. If no slot becomes free in time, that is its subclass
    `NoSlotError`. A function that calls itself needs a slot for each depth. Raises `ValueError` for
    a malformed limit, at once or at the call, and `TypeError` for a generator function.
    """
    if not callable(function):
        raise TypeError(f"there must be a function to limit, not {function!r}")
    tool = name or getattr(function, "__name__", None) or repr(function)
    awaited = is_async(function, tool)
    slots = Slots(max_abandoned)
    _check(tool, timeout_s)

    def limit() -> float | None:
        own = (overrides or {}).get(tool)
        if own is None:
            return timeout_s
        _check(tool, own)
        return own

    @functools.wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        seconds = limit()
        if not seconds:
            return function(*arguments, **named)
        return _run(tool, seconds, slots, functools.partial(function, *arguments, **named))

    @functools.wraps(function)
    async def bounded_async(*arguments: Any, **named: Any) -> Any:
        seconds = limit()
        if not seconds:
            return await function(*arguments, **named)
        return await _run_async(tool, seconds, functools.partial(function, *arguments, **named))

    wrapped: Any = bounded_async if awaited else bounded
    return wrapped  # type: ignore[no-any-return]


def _check(tool: str, timeout_s: float | None) -> None:
    if timeout_s is not None:
        in_ms(f"the timeout of {tool}", timeout_s)


@contextmanager
def _limited(seconds: float) -> Iterator[tuple[Deadline, float]]:
    """Make a deadline current unless an earlier one is; yield that which holds, and its seconds."""
    own = Deadline.from_now(seconds)
    with own.as_current() as deadline:
        yield deadline, seconds if deadline is own else round(deadline.remaining_seconds(), 3)


async def _run_async(tool: str, seconds: float, function: Callable[[], Any]) -> Any:
    with _limited(seconds) as (deadline, held_s):
        try:
            async with deadline.scope():
                return await function()
        except DeadlineExceeded as error:
            if error.deadline is not deadline:
                raise
            raise ToolTimeoutError(tool, held_s, deadline) from error


def _run(tool: str, seconds: float, slots: Slots, function: Callable[[], Any]) -> Any:
    with _limited(seconds) as (deadline, held_s):
        if deadline.is_expired():
            raise ToolTimeoutError(tool, held_s, deadline)
        slot = object()
        try:
            slots.take(slot, deadline.remaining_seconds)
        except SlotsBusyError as busy:
            raise NoSlotError(tool, held_s, deadline, f"{tool} was not started: {busy}") from None
        future: Any = None
        try:
            future = slots.start(slot, function)
            if not ends_within(future, deadline.remaining_seconds()):
                raise ToolTimeoutError(tool, held_s, deadline)
            return future.result()
        finally:
            slots.abandon(slot)  # nothing changes for one that has ended
            future = None  # its error's traceback leads back here

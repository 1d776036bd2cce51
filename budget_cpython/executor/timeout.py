"""Give any function a time limit: a decorator and a wrapper, for sync and async ones."""

import functools
from collections.abc import Callable, Mapping
from math import inf
from threading import Lock
from typing import Any

from budget_core.errors import DeadlineExceeded
from budget_core.monotonic import in_ms
from budget_cpython.deadline import Deadline
from budget_cpython.executor.options import Function, is_async
from budget_cpython.executor.slots import Places
from budget_cpython.executor.threads import Job

Overrides = Mapping[str, float | None]


class ToolTimeoutError(DeadlineExceeded):
    """A function did not end within its time limit: `tool` is its name, `timeout_s` the limit."""

    def __init__(self, tool: str, timeout_s: float, deadline: Deadline) -> None:
        super().__init__(deadline)
        self.tool = tool
        self.timeout_s = timeout_s
        self.args = (f"{tool} did not end within {timeout_s:g} s",)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.tool, self.timeout_s, self.deadline), vars(self)


def tool_timeout(
    timeout_s: float | None,
    *,
    name: str | None = None,
    overrides: Overrides | None = None,
    max_abandoned: int | None = 8,
) -> Callable[[Function], Function]:
    """Return a decorator that gives a function a time limit; see `with_timeout`."""

    def wrap(function: Function) -> Function:
        return with_timeout(
            function, timeout_s, name=name, overrides=overrides, max_abandoned=max_abandoned
        )

    return wrap


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

    A call that takes too long raises `ToolTimeoutError`. An async function is cancelled; any other
    runs in a thread, which goes on and whose result is dropped: at most `max_abandoned` of them at
    a time, and as many calls run at once; where no place becomes free in time, `NoPlaceError` is
    raised. A function that calls itself therefore needs a place for each depth. Raises `ValueError`
    for a limit that is none, at once or at the call, and `TypeError` for a generator function.
    """
    if not callable(function):
        raise TypeError(f"there must be a function to limit, not {function!r}")
    tool = name or getattr(function, "__name__", None) or repr(function)
    awaited = is_async(function, tool)
    places = Places(max_abandoned)
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
        return _run(tool, seconds, places, functools.partial(function, *arguments, **named))

    @functools.wraps(function)
    async def bounded_async(*arguments: Any, **named: Any) -> Any:
        seconds = limit()
        if not seconds:
            return await function(*arguments, **named)
        own = Deadline.from_now(seconds)
        with own.as_current() as deadline:
            held = seconds if deadline is own else _left_s(deadline)
            try:
                async with deadline.scope():
                    return await function(*arguments, **named)
            except DeadlineExceeded as error:
                if error.deadline is not deadline:
                    raise
                raise ToolTimeoutError(tool, held, deadline) from error

    wrapped: Any = bounded_async if awaited else bounded
    return wrapped  # type: ignore[no-any-return]


def _check(tool: str, timeout_s: float | None) -> None:
    if timeout_s is not None:
        in_ms(f"the timeout of {tool}", timeout_s)


def _left_s(deadline: Deadline) -> float:
    return round(deadline.remaining_seconds(), 3)


def _run(tool: str, seconds: float, places: Places, function: Callable[[], Any]) -> Any:
    own = Deadline.from_now(seconds)
    with own.as_current() as deadline:
        held = seconds if deadline is own else _left_s(deadline)
        if deadline.is_expired():
            raise ToolTimeoutError(tool, held, deadline)
        job = _Bounded(places, function)
        try:
            places.enter(job, deadline.remaining_seconds)
            job.start()
            ended = job.is_done(deadline.remaining_seconds())
        except BaseException:  # Ctrl-C comes here
            job.give_up()
            job.call_off()
            raise
        if not ended and job.give_up():
            raise ToolTimeoutError(tool, held, deadline)
        if not ended:
            job.is_done(inf)
    return job.result()


class _Bounded(Job):
    """A call in a thread: ends or is given up, whichever takes `_first` first."""

    value: Any = None
    error: BaseException | None = None

    def __init__(self, places: Places, function: Callable[[], Any]) -> None:
        super().__init__(places)
        self._function = function
        self._first = Lock()

    def work(self) -> None:
        value, error = None, None
        try:
            value = self._function()
        except BaseException as raised:  # noqa: BLE001 - raised where the result is waited for
            error = raised
        if self._first.acquire(blocking=False):
            self.value, self.error = value, error
        del error  # it, its traceback and this frame would keep each other alive

    def give_up(self) -> bool:
        """Leave the call to itself and return `True`, or return `False`: it has just ended."""
        if self._first.acquire(blocking=False):
            self.given_up = True
            self.places.abandon(self)
        return self.given_up

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised."""
        try:
            if self.error is not None:
                raise self.error
            return self.value
        finally:
            self.error = None  # as above

"""Give any function a time limit: a decorator and a wrapper, for sync and async ones."""

import functools
import inspect
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TypeVar

from budget_core.errors import DeadlineExceeded
from budget_core.monotonic import in_ms
from budget_cpython.deadline import Deadline
from budget_cpython.executor.places import Places
from budget_cpython.executor.threads import Job

Function = TypeVar("Function", bound=Callable[..., Any])
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

    `overrides` is looked into at each call, by the tool's `name` (the function's own unless given):
    what it has there holds instead. `0` and `None` set no limit. Where a deadline is current
    (`Deadline.as_current`) and earlier, that holds.

    A call that takes too long raises `ToolTimeoutError`. An async function is cancelled; any other
    runs in a thread, which goes on and whose result is dropped: at most `max_abandoned` of them at
    a time, and as many calls run at once; where no place becomes free in time, `NoPlaceError` is
    raised. Raises `ValueError` for a limit that is none, at once or at the call, and `TypeError`
    for a generator function.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{function!r} is a generator function: its calls return at once")
    tool = name or getattr(function, "__name__", None) or repr(function)
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
        with Deadline.from_now(seconds).as_current() as deadline:
            try:
                async with deadline.scope():
                    return await function(*arguments, **named)
            except DeadlineExceeded as error:
                if error.deadline is not deadline:
                    raise
                raise ToolTimeoutError(tool, seconds, deadline) from error

    wrapped: Any = bounded_async if inspect.iscoroutinefunction(function) else bounded
    return wrapped  # type: ignore[no-any-return]


def _check(tool: str, timeout_s: float | None) -> None:
    if timeout_s is not None:
        in_ms(f"the timeout of {tool}", timeout_s)


def _run(tool: str, seconds: float, places: Places, function: Callable[[], Any]) -> Any:
    with Deadline.from_now(seconds).as_current() as deadline:
        job = _Bounded(places, function)
        places.enter(job, deadline.remaining_seconds)
        job.start()
        try:
            ended = job.is_done(deadline.remaining_seconds())
        except BaseException:  # Ctrl-C comes here
            job.give_up()
            raise
        if not ended and job.give_up():
            raise ToolTimeoutError(tool, seconds, deadline)
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

    def give_up(self) -> bool:
        """Leave the call to itself, unless it has just ended; return whether it is left."""
        self.given_up = self._first.acquire(blocking=False)
        if self.given_up:
            self.places.abandon(self)
        else:
            self.is_done(float("inf"))
        return self.given_up

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised."""
        try:
            if self.error is not None:
                raise self.error
            return self.value
        finally:
            self.error = None  # an error and its traceback would keep each other alive

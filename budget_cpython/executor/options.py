"""What a tool says about itself: how long it may take, and how it is run and stopped."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeVar

from budget_core.monotonic import in_ms

Function = TypeVar("Function", bound=Callable[..., Any])
_OPTIONS = "__tool_options__"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """How the executor is to treat a tool; set with `tool_options`.

    - `cap_s`: seconds that one call may take; `None` sets no limit of its own.
    - `cooperative`: the tool takes a keyword `token`, a `DeadlineToken`, asks it now and then, and
      returns what it has when told to stop.
    - `process`: run in a process of its own, which is killed when its time is over.
    - `retryable`: another try is harmless.
    """

    cap_s: float | None = None
    cooperative: bool = False
    process: bool = False
    retryable: bool = True

    def __post_init__(self) -> None:
        if self.cap_s is not None:
            in_ms("cap_s", self.cap_s)


def tool_options(
    *,
    cap_s: float | None = None,
    cooperative: bool = False,
    process: bool = False,
    retryable: bool = True,
) -> Callable[[Function], Function]:
    """Return a decorator that tells the executor about a function; see `ToolOptions`."""
    options = ToolOptions(cap_s, cooperative, process, retryable)

    def mark(function: Function) -> Function:
        setattr(function, _OPTIONS, options)
        return function

    return mark


_PLAIN = ToolOptions()


def describe(tool: Any) -> tuple[str, Callable[..., Any], ToolOptions, bool]:
    """Return a tool's name, function and options, and whether it is async.

    A tool is a function, or has one as `run` (a `Tool`). Raises `TypeError` for anything else.
    """
    if type(tool) is FunctionType and not tool.__dict__:  # most are, and this is quicker
        return tool.__name__, tool, _PLAIN, bool(tool.__code__.co_flags & inspect.CO_COROUTINE)
    function = getattr(tool, "run", tool)
    if not callable(function):
        raise TypeError(f"a tool is a function, or has one as its attribute run, not {tool!r}")
    name = getattr(tool, "name", None) or getattr(function, "__name__", None) or repr(function)
    options: Any = getattr(tool, _OPTIONS, None) or getattr(function, _OPTIONS, _PLAIN)
    awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        type(function).__call__
    )
    return str(name), function, options, awaited

"""The options of a tool: how long it may take, and how it is run and stopped."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from budget_core.agent.tool import Tool
from budget_core.durations import in_ms

Function = TypeVar("Function", bound=Callable[..., Any])
_OPTIONS = "__tool_options__"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of a tool for the executor; set with `tool_options`.

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


_NO_OPTIONS = ToolOptions()


def describe(tool: Any) -> tuple[str, Callable[..., Any], ToolOptions, bool]:
    """Return a tool's name, function and options, and whether it is async.

    A tool is a function, or has one as `run` (a `Tool`). A `functools.partial` has the name and the
    options of what it calls. Raises `TypeError` for what cannot be called, and for a generator
    function.
    """
    function = getattr(tool, "run", tool)
    if not callable(function):
        raise TypeError(f"a tool is a function, or has one as its attribute run, not {tool!r}")
    inner, options = function, getattr(tool, _OPTIONS, None) or getattr(function, _OPTIONS, None)
    while isinstance(inner, functools.partial):
        inner = inner.func
        options = options or getattr(inner, _OPTIONS, None)
    name = getattr(tool, "name", None) or getattr(inner, "__name__", None) or repr(inner)
    options = options or _NO_OPTIONS
    if isinstance(tool, Tool):
        cap_s = options.cap_s if tool.cap_s is None else tool.cap_s
        cooperative = options.cooperative or tool.cooperative
        options = replace(options, cap_s=cap_s, cooperative=cooperative)
    return str(name), function, options, is_async(function, str(name))


def is_async(function: Callable[..., Any], name: str) -> bool:
    """Tell whether calling a function gives a coroutine.

    Raises `TypeError` for a generator function: its body would run after the call, without a limit.
    """
    for one in (function, type(function).__call__):
        if inspect.iscoroutinefunction(one):
            return True
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise TypeError(f"{name} is a generator function: its calls return at once")
    return False

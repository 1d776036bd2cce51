"""Tools within their time, and never written late."""

from budget_cpython.executor.executor import BoundedToolExecutor
from budget_cpython.executor.options import ToolOptions, tool_options
from budget_cpython.executor.outcome import ToolOutcome
from budget_cpython.executor.timeout import (
    NoSlotError,
    ToolTimeoutError,
    tool_timeout,
    with_timeout,
)

__all__ = [
    "BoundedToolExecutor",
    "NoSlotError",
    "ToolOptions",
    "ToolOutcome",
    "ToolTimeoutError",
    "tool_options",
    "tool_timeout",
    "with_timeout",
]

"""The outcome of one tool call."""

from typing import Any, NamedTuple


class ToolKilled(BaseException):
    """The process of a tool was killed before the tool came to an end."""


class ToolOutcome(NamedTuple):
    """The outcome of one tool call.

    - `status`: `"completed"`, `"timed_out"`, `"failed"` (the tool raised) or `"denied"` (it was
      not started, and no tool call was used).
    - `value`: what a completed tool returned; `partial` where it was told to stop and did.
    - `error`: what a failed tool raised.
    - `reason`: in words, why it was denied, failed or timed out.
    - `latency_ms`: from the call to its end.
    - `retryable`: whether another try makes sense.
    """

    status: str
    tool_name: str
    trace_id: str
    value: Any = None
    error: BaseException | None = None
    reason: str = ""
    latency_ms: int = 0
    retryable: bool = False
    partial: bool = False

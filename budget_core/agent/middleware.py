"""Look at, change or stop what goes to a model and to tools."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.agent.llm_call import Request
    from budget_core.provider import ChatResponse, ToolCall


class Middleware:
    """Four points at which a run can be watched, changed and stopped; each may be async.

    `budget` is the run's `Envelope`. Any of them may raise `StopRequested`. The time they take
    counts against the timeout, unless `with budget.paused("approval"):` declares otherwise.
    """

    def before_llm(self, request: "Request", budget: "Any") -> "Any":
        """Look at a request before it is sent."""

    def after_llm(self, request: "Request", response: "ChatResponse", budget: "Any") -> "Any":
        """Look at an answer; return another to take its place. It is counted as it came."""

    def before_tool(self, call: "ToolCall", budget: "Any") -> "Any":
        """Look at a tool call, its arguments checked; return a text to answer in its place."""

    def after_tool(self, call: "ToolCall", result: str, budget: "Any") -> "Any":
        """Look at what a tool call came to; return another text to take its place."""

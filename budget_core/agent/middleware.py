"""Look at, change or stop what goes to a model and to tools."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import Tools
    from budget_core.provider import ChatResponse, ToolCall


class Request:
    """What is about to be sent to a model; middleware may change it.

    `compacted` tells whether the messages took the place of those of the conversation.

    `messages` and `tools` are copies of the lists; `tools` are definitions, or `None`; `model`
    `None` is the provider's default. `max_tokens` can be lowered: it is held within the budget
    afterwards. `options` are further keywords of the provider's `chat`.
    """

    def __init__(
        self,
        messages: "Sequence[dict[str, Any]]",
        tools: "Tools | None" = None,
        model: str | None = None,
        max_tokens: int | None = None,
        options: "dict[str, Any] | None" = None,
    ) -> None:
        self.messages = list(messages)
        self.tools = list(tools) if tools else None
        self.model = model
        self.max_tokens = max_tokens
        self.options = dict(options or {})
        self.compacted = False


class Middleware:
    """Four points at which a run can be watched, changed and stopped; each may be async.

    `budget` is the run's `Envelope`. Any of them may raise `StopRequested`. The time they take
    counts against the timeout, unless `with budget.paused("approval"):` declares otherwise. Source:
    seed 004.
    """

    def before_llm(self, request: Request, budget: "Any") -> "Any":
        """Look at a request before it is sent."""

    def after_llm(self, request: Request, response: "ChatResponse", budget: "Any") -> "Any":
        """Look at an answer; return another to take its place. It is counted as it came."""

    def before_tool(self, call: "ToolCall", budget: "Any") -> "Any":
        """Look at a tool call, its arguments checked; return a text to answer in its place."""

    def after_tool(self, call: "ToolCall", result: str, budget: "Any") -> "Any":
        """Look at what a tool call came to; return another text to take its place."""

"""What passes between an agent loop and a model's provider.

The shapes are exoclaw's `LLMProvider` and `LLMResponse`, so its loop and ours take either.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ToolCall:
    """A model's request to call a tool.

    `arguments` is the JSON object that the model sent, or `None` if it sent something else.
    """

    def __init__(self, id: str, name: str, arguments: "Any") -> None:
        self.id = id
        self.name = name
        self.arguments = arguments


class ChatResponse:
    """A model's answer: text, tool calls, or both.

    `usage` is the provider's report as it came. `cut_off_by` names the scope of the budget that
    answered in the model's place, and is `None` where a model answered.
    """

    def __init__(
        self,
        content: str | None,
        tool_calls: "list[ToolCall] | None" = None,
        finish_reason: str = "stop",
        usage: "dict[str, Any] | None" = None,
        cut_off_by: str | None = None,
    ) -> None:
        self.content = content
        self.tool_calls = [] if tool_calls is None else tool_calls
        self.finish_reason = finish_reason
        self.usage = {} if usage is None else usage
        self.cut_off_by = cut_off_by
        self.reasoning_content = None
        self.thinking_blocks = None

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for tools before it answers."""
        return len(self.tool_calls) > 0


async def maybe_await(value: "Any") -> "Any":
    """Return a value; await it first if it can be awaited.

    MicroPython's coroutines are generators and have no `__await__`.
    """
    if hasattr(value, "__await__") or hasattr(value, "send"):
        return await value
    return value

"""What passes between an agent loop and a model's provider.

The shapes are exoclaw's `LLMProvider` and `LLMResponse`, so its loop and ours take either.
"""

from budget_core.errors import ProviderError
from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class ToolCall:
    """A model's request to call a tool.

    `arguments` is the JSON object that the model sent, or `None` if it sent something else.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython
    id: str
    name: str
    arguments: "Any"

    def __init__(self, id: str, name: str, arguments: "Any") -> None:
        self.id = id
        self.name = name
        self.arguments = arguments


class ChatResponse:
    """A model's answer: text, tool calls, or both.

    - `usage`: the provider's report as it came, or a `Usage` that was read from it.
    - `model`: the model that answered, `None` where the answer does not say.
    - `cost`: what the provider says it billed, in US dollars, and `service_tier` the tier that it
      says it served; `None` where it says nothing.
    - `cut_off_by`: the scope of the budget that answered in the model's place; `None` where a model
      answered.
    - `cut_short_by`: the path of the account whose budget ended the answer, `None` for any other.
    - `attempts`: how often the request was made.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython
    content: str | None
    tool_calls: "list[ToolCall]"
    finish_reason: str
    usage: "dict[str, Any]"
    reasoning_content: str | None
    thinking_blocks: "list[dict[str, Any]] | None"
    cost: float | None
    service_tier: str | None
    cut_short_by: str | None = None
    model: str | None = None
    attempts = 1

    def __init__(
        self,
        content: str | None,
        tool_calls: "list[ToolCall] | None" = None,
        finish_reason: str = "stop",
        usage: "dict[str, Any] | None" = None,
        reasoning_content: str | None = None,
        thinking_blocks: "list[dict[str, Any]] | None" = None,
        cost: float | None = None,
        service_tier: str | None = None,
        cut_off_by: str | None = None,
    ) -> None:
        self.content = content
        self.tool_calls = [] if tool_calls is None else tool_calls
        self.finish_reason = finish_reason
        self.usage = {} if usage is None else usage
        self.reasoning_content = reasoning_content
        self.thinking_blocks = thinking_blocks
        self.cost = cost
        self.service_tier = service_tier
        self.cut_off_by = cut_off_by

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for tools before it answers."""
        return len(self.tool_calls) > 0


def check_provider(name: str, value: "Any") -> "Any":
    """Accept an object with a method `chat`; `ValueError` says how to wrap an SDK's client."""
    if not callable(getattr(value, "chat", None)):
        raise ValueError(
            f"{name} must be a provider, whose method chat(messages, …) answers, such as "
            f"ChatClient(base_url, model, api_key), not {type(value).__name__}: "
            "docs/operatives.md shows how to wrap an SDK's client"
        )
    return value


def usage_of(response: "Any") -> Usage:
    """Return the usage that an answer reports. Never raises, also without an answer."""
    try:
        report = response.usage
    except Exception:  # noqa: BLE001 - a provider's answer may be any object
        report = None
    return report if isinstance(report, Usage) else read_usage(report)


def is_billed(error: BaseException) -> bool:
    """Tell whether a failed call may cost something: not if refused, redirected or never sent."""
    if isinstance(error, ProviderError):
        return error.sent and error.status < 300
    return getattr(error, "sent", True) and not is_too_long(error)


def is_too_long(error: BaseException) -> bool:
    """Tell whether a model refused a prompt for its length, by the name that exoclaw gives that."""
    return type(error).__name__ == "ContextWindowExceededError"


async def maybe_await(value: "Any") -> "Any":
    """Return a value; await it first if it can be awaited.

    MicroPython's coroutines are generators and have no `__await__`.
    """
    if hasattr(value, "__await__") or hasattr(value, "send"):
        return await value
    return value

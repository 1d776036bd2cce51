"""What an exoclaw agent is made of besides its loop: a provider, tools, a conversation."""

from exoclaw.agent import AgentLoop
from exoclaw.providers import LLMResponse, ToolCallRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    Message = dict[str, Any]
    Facts = dict[str, Any]

QUESTION = "What is on the shelf?"
TOKENS_A_CALL = 100


class Call:
    """A scripted model's line that calls a tool, with the words beside it."""

    def __init__(self, tool: str, words: str | None = None) -> None:
        self.tool = tool
        self.words = words


LOOK = Call("look")


class ScriptedProvider:
    """A model that says its lines in turn, the last one for ever; an exception is raised.

    Each answer is reported as `TOKENS_A_CALL` tokens. What each call was sent is kept: the
    messages as `role: content`, the names of the tools or `None`, the model.
    """

    def __init__(self, *lines: "str | Call | Exception") -> None:
        self.lines = list(lines)
        self.sent: list[list[str]] = []
        self.tools: list[list[str] | None] = []
        self.models: list[str | None] = []

    def get_default_model(self) -> str:
        return "primary"

    async def chat(
        self,
        messages: "list[Message]",
        tools: "list[Message] | None" = None,
        model: str | None = None,
        max_tokens: int = 4096,
        temperature: float = 0.7,
        reasoning_effort: str | None = None,
        response_format: "Any" = None,
    ) -> LLMResponse:
        return self._answer(messages, tools, model)

    def _answer(
        self, messages: "list[Message]", tools: "list[Message] | None", model: str | None
    ) -> LLMResponse:
        self.sent.append(said(messages))
        self.tools.append(None if tools is None else [tool["function"]["name"] for tool in tools])
        self.models.append(model)
        number = len(self.sent)
        line = self.lines[min(number, len(self.lines)) - 1]
        if isinstance(line, Exception):
            raise line
        usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": TOKENS_A_CALL}
        if isinstance(line, str):
            return LLMResponse(content=line, usage=usage)
        call = ToolCallRequest(id=f"call_{number}", name=line.tool, arguments={"place": "shelf"})
        return LLMResponse(line.words, [call], "tool_calls", usage)


class StreamingProvider(ScriptedProvider):
    """A scripted model that hands out its words one by one, as exoclaw's streaming ones do."""

    supports_response_deltas = True

    async def chat(
        self,
        messages: "list[Message]",
        tools: "list[Message] | None" = None,
        model: str | None = None,
        max_tokens: int = 4096,
        temperature: float = 0.7,
        reasoning_effort: str | None = None,
        response_format: "Any" = None,
        on_delta: "Callable[[str], Awaitable[None]] | None" = None,
    ) -> LLMResponse:
        response = self._answer(messages, tools, model)
        if on_delta and response.content:
            for word in response.content.split(" "):
                await on_delta(word)
        return response


class Memory:
    """A conversation as exoclaw persists it, message by message, kept in a list."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.recoveries = 0

    async def build_prompt(
        self, session_id: str, message: str, **context: "Any"
    ) -> "list[Message]":
        system = {"role": "system", "content": "You look things up."}
        return [system] + self.messages + [{"role": "user", "content": message}]

    async def append(self, session_id: str, message: "Message") -> None:
        self.messages.append(message)

    async def post_turn(self, session_id: str) -> None:
        return None

    async def record(self, session_id: str, new_messages: "list[Message]") -> None:
        self.messages.extend(new_messages)

    async def clear(self, session_id: str) -> bool:
        self.messages.clear()
        return True

    def list_sessions(self) -> "list[Message]":
        return []

    async def recover_from_overflow(self, session_id: str) -> "list[Message]":
        self.recoveries += 1
        return self.messages[-1:]


class Tool:
    """A tool that says where it looked."""

    description = "Looks at a place."
    parameters = {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    }

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, **arguments: object) -> str:
        return f"{self.name}: nothing on the {arguments['place']}"


class Delegate(Tool):
    """A tool that gives its work to the loop of a sub-agent."""

    def __init__(self, loop: AgentLoop) -> None:
        super().__init__("delegate")
        self._loop = loop

    async def execute(self, **arguments: object) -> str:
        return await self._loop.process_direct(f"Look at the {arguments['place']}.")


def said(messages: "list[Message]") -> list[str]:
    """Return messages as `role: content`."""
    return [f"{message['role']}: {message['content']}" for message in messages]

"""One call in no vendor's shape: what was asked, what the model replies, what it used."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scripted_model.checks import Json

CHARS_PER_TOKEN: Final = 4


def count_tokens(chars: int) -> int:
    """Return the tokens of `chars` characters: one for each four begun, at least one."""
    return max(1, -(-chars // CHARS_PER_TOKEN))


@dataclass(frozen=True)
class Asked:
    """A request to the scripted endpoint.

    `messages` are those of chat completions, whatever the vendor. `tools` are those that may be
    called, by name with their parameters' schema; `forced` if one of them has to be. `max_tokens`
    limits each of `answers` answers (0: the prompt is only counted or embedded). `thinking` is
    the longest reasoning in tokens; `None`: no reasoning. The cache holds the first `cacheable`
    pieces of `prompt`; `counts_writes` says that writing them is reported. `body` is the request
    as it came.
    """

    model: str
    messages: list[Json]
    body: Json
    prompt: list[str]
    cacheable: int = 0
    counts_writes: bool = False
    tools: dict[str, Json] = field(default_factory=dict)
    forced: bool = False
    max_tokens: int | None = None
    answers: int = 1
    stream: bool = False
    thinking: int | None = None


class ScriptedToolCall(NamedTuple):
    """A tool the model wants called; `arguments` is JSON text."""

    name: str
    arguments: str


class ScriptedUsage(NamedTuple):
    """Tokens used: `cached` and `written` are part of `prompt`, `reasoning` of `completion`."""

    prompt: int
    completion: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Reply:
    """A reply: reasoning, words and tool calls.

    `usage` is reported instead of what was counted. `halfway` is called in the middle of a
    stream, and the rest waits for it. `cut` says that the token limit ended the reply.
    """

    content: str = ""
    calls: tuple[ScriptedToolCall, ...] = ()
    thinking: str = ""
    usage: ScriptedUsage | None = None
    halfway: Callable[[], object] | None = None
    cut: bool = False

    @property
    def chars(self) -> int:
        """Count the characters generated: reasoning, words, tool names and their arguments."""
        spoken = len(self.thinking) + len(self.content)
        return spoken + sum(len(part) for call in self.calls for part in call)

    @property
    def finish_reason(self) -> str:
        """Return why the reply ends, in the words of chat completions."""
        return "length" if self.cut else "tool_calls" if self.calls else "stop"


@dataclass(frozen=True)
class Answer:
    """A reply to what was asked; `number` counts the endpoint's answers, from 1."""

    asked: Asked
    number: int
    reply: Reply
    usage: ScriptedUsage | None

"""A provider with prepared answers, and runs of an operative against it."""

import asyncio
import json

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.operative import Operative
from budget_core.agent.tool import Tool
from budget_core.monotonic import MONOTONIC
from budget_core.provider import ChatResponse, ToolCall, maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.agent.run import OperativeResult, Run

QUESTION = {"role": "user", "content": "What now?"}
USAGE = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Script:
    """A provider that gives its answers in order, the last one for ever, and keeps the requests.

    An answer is a response, a number of tokens that it used, an error to raise, or a function of
    the request that returns one of these, at once or awaited.
    """

    supports_response_deltas = True

    def __init__(self, *answers: "Any", model: str = "script") -> None:
        self.answers = list(answers or (0,))
        self.requests: list[dict[str, Any]] = []
        self.model = model

    def get_default_model(self) -> str:
        """Return the model that answers unless another is named."""
        return self.model

    async def chat(self, messages: "Any", **request: "Any") -> "Any":
        """Return the next answer."""
        request["messages"] = json.loads(json.dumps(messages))
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = await maybe_await(answer(dict(request, messages=messages)))
        if isinstance(answer, BaseException):
            raise answer
        return costs(answer) if isinstance(answer, int) else answer

    @property
    def sent(self) -> "list[Any]":
        """The messages of each request."""
        return [request["messages"] for request in self.requests]

    @property
    def offered(self) -> "list[Any]":
        """The names of the tools of each request; `None` where there are none."""
        tools = [request.get("tools") for request in self.requests]
        return [each and [tool["function"]["name"] for tool in each] for each in tools]

    @property
    def models(self) -> "list[Any]":
        """The model of each request."""
        return [request.get("model") for request in self.requests]

    @property
    def limits(self) -> "list[Any]":
        """The most tokens that each request allows."""
        return [request.get("max_tokens") for request in self.requests]


class Diary:
    """An `on_event` that takes a note of everything."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def __call__(self, kind: str, **fields: "Any") -> None:
        """Take a note of an event."""
        self.events.append((kind, fields))

    @property
    def kinds(self) -> "list[str]":
        """The kinds of all events."""
        return [kind for kind, _ in self.events]

    def of(self, kind: str) -> "list[Any]":
        """Return the fields of all events of that kind."""
        return [fields for name, fields in self.events if name == kind]


class Played:
    """A run that was played: its `result`, its `script`, and the `diary` of its events."""

    def __init__(self, script: Script, diary: Diary, run: "Run") -> None:
        self.script = script
        self.diary = diary
        self.run = run

    @property
    def result(self) -> "OperativeResult":
        """What it came to."""
        assert self.run.result is not None
        return self.run.result

    @property
    def reason(self) -> "Any":
        """Why it was stopped."""
        return self.result.reason

    @property
    def figures(self) -> "tuple[Any, ...]":
        """What caused the stop: kind, axis, used, limit, kept and scope."""
        reason = self.reason
        return reason.kind, reason.axis, reason.used, reason.limit, reason.kept, reason.scope

    @property
    def statuses(self) -> "list[str]":
        """How each tool call ended."""
        return [entry["status"] for entry in self.result.tool_results]

    @property
    def told(self) -> "list[str]":
        """What the model was told of each tool call."""
        return [message["content"] for message in self.result.messages if message["role"] == "tool"]


def says(text: "str | None", usage: "Any" = USAGE, **more: "Any") -> ChatResponse:
    """Return an answer in words."""
    return ChatResponse(text, usage=usage, **more)


def costs(tokens: int) -> ChatResponse:
    """Return an answer that used so many tokens, all of them the prompt's."""
    used = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
    return says("answer", used)


def streams(*steps: "Any", usage: "Any" = None) -> "Callable[[dict[str, Any]], Any]":
    """Return an answer that comes step by step, and the usage that it reports at its end.

    A text is a delta, a dict a report of usage, a number a wait, and an error is raised.
    """

    async def answer(request: "dict[str, Any]") -> ChatResponse:
        on_delta: Any = request.get("on_delta")
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, dict):
                on_delta.usage = step
            elif isinstance(step, int):
                await asyncio.sleep(step)
            else:
                await on_delta(step)
        return says("answer", usage)

    return answer


def calls(*named: "tuple[str, Any]", text: "str | None" = None) -> ChatResponse:
    """Return an answer that calls tools by name, with their arguments."""
    asked = [ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(named)]
    return ChatResponse(text, asked, "tool_calls", USAGE)


def shout(text: str = "") -> str:
    return text.upper()


async def whisper(text: str) -> str:
    return text.lower()


def fail(**arguments: object) -> str:
    raise KeyError("lost")


TOOLS = [
    Tool("shout", "Says it loud.", shout, {"type": "object"}),
    Tool("whisper", "Says it softly.", whisper, TEXT),
    Tool("fail", "Fails.", fail),
]
SHOUT = calls(("shout", {"text": "hi"}))


def prepare(
    *answers: "Any",
    budget: "Budget | Envelope | None" = None,
    clock: "Any" = MONOTONIC,
    tools: "Sequence[Tool]" = TOOLS,
    messages: "Any" = "What now?",
    **more: "Any",
) -> Played:
    """Begin a run with those answers, on that clock."""
    script, diary = Script(*answers), Diary()
    more = dict({"on_event": diary}, **more)
    if not isinstance(budget, Envelope):
        budget = Envelope.open(Budget() if budget is None else budget, clock)
    return Played(script, diary, Operative(script, tools, budget, **more).begin(messages))


async def play(*answers: "Any", **more: "Any") -> Played:
    """Play a run with those answers to its end, and look whether its conversation can go on."""
    played = prepare(*answers, **more)
    await played.run.finish()
    check_conversation(played.result.messages)
    assert played.run.budget.tokens.held == 0
    assert played.run._toolbox.ends == {}
    assert played.run.state is None or not played.run.state.is_accepting_writes()
    return played


def check_conversation(messages: "Any") -> None:
    """Assert that every tool call has exactly one result, right behind it."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0), messages
            assert isinstance(message["content"], str)
        else:
            assert not waiting, messages
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert not waiting, messages

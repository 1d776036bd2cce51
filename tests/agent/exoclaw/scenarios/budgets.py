"""What one `Budget` does in exoclaw's loop: its limits, the final call, sub-agents, streams."""

import asyncio

from exoclaw.providers import ContextWindowExceededError, LLMResponse, ToolCallRequest

from budget_core import (
    Budget,
    BudgetWrapper,
    DailyBudgetTracker,
    Enforcement,
    Envelope,
    ExoclawBudget,
)
from tests_micro.support import stopped_clock

from .agents import agent, daily_config, noon
from .parts import (
    LOOK,
    QUESTION,
    Call,
    Memory,
    ScriptedProvider,
    StreamingProvider,
    Tool,
    said,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parts import Facts, Message

USAGE = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}


class Batches(ScriptedProvider):
    """A scripted model whose lines may be lists of tools, called all at once."""

    def __init__(self, *lines: "Any") -> None:
        super().__init__(*lines)

    def _answer(
        self, messages: "list[Message]", tools: "list[Message] | None", model: str | None
    ) -> LLMResponse:
        line: Any = self.lines[min(len(self.sent) + 1, len(self.lines)) - 1]
        if not isinstance(line, list):
            return super()._answer(messages, tools, model)
        self.sent.append(said(messages))
        self.tools.append(None if tools is None else [tool["function"]["name"] for tool in tools])
        calls = [
            ToolCallRequest(id=f"call_{index}", name=name, arguments={"place": "shelf"})
            for index, name in enumerate(line)
        ]
        return LLMResponse(None, calls, "tool_calls", USAGE)


class Slow(Tool):
    """A tool that takes its time, by a clock that a test moves."""

    def __init__(self, clock: "Any", ms: int) -> None:
        super().__init__("look")
        self._clock = clock
        self._ms = ms

    async def execute(self, **arguments: object) -> str:
        self._clock.advance(self._ms)
        return await super().execute(**arguments)


class Team(Tool):
    """A tool that gives its work to the loops of several sub-agents at the same time."""

    def __init__(self, *loops: "Any") -> None:
        super().__init__("delegate")
        self._loops = loops

    async def execute(self, **arguments: object) -> str:
        asked = [loop.process_direct(f"Look at the {arguments['place']}.") for loop in self._loops]
        return " / ".join(await asyncio.gather(*asked))


class Shared:
    """Many loops' model: says to sub-agents what it says to nobody else, a step at a time."""

    def __init__(self, *lines: "Any", helpers: "list[Any]") -> None:
        self.main = ScriptedProvider(*lines)
        self.helpers = helpers
        self.calls = self.most = self.flying = 0

    def get_default_model(self) -> str:
        return "primary"

    async def chat(self, messages: "list[Message]", **options: "Any") -> LLMResponse:
        self.calls += 1
        if messages[-1]["content"] == QUESTION or "delegate" in str(messages):
            return await self.main.chat(messages, **options)
        self.flying += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(0)
        self.flying -= 1
        return await ScriptedProvider(*self.helpers).chat(messages, **options)


def _facts(adapter: ExoclawBudget) -> "Facts":
    reason = adapter.reason
    used = adapter.budget.usage()
    return {
        "kind": None if reason is None else reason.kind,
        "scope": None if reason is None else reason.scope,
        "turns": used["turns"],
        "tokens": used["tokens"],
        "tool_calls": used["tool_calls"],
    }


async def _turn(provider: "Any", budget: "Any", tools: "Any" = None, **gate: "Any") -> "Facts":
    """Play one turn within a budget."""
    memory, adapter = Memory(), ExoclawBudget(provider, budget, **gate)
    options = {} if tools is None else {"tools": tools}
    loop = agent(adapter, adapter, conversation=memory, **options)
    reply = await loop.process_direct(QUESTION)
    facts = _facts(adapter)
    facts.update(reply=reply, sent=provider.sent, tools=provider.tools, models=provider.models)
    return dict(facts, history=said(memory.messages), recoveries=memory.recoveries)


async def budget_of_turns() -> "Facts":
    provider = ScriptedProvider(LOOK, LOOK, "An empty shelf, as far as I saw.")
    return await _turn(provider, Budget(max_turns=3))


async def budget_of_tool_calls() -> "Facts":
    provider = Batches(["look", "search", "look", "look"], "Two looks.")
    return await _turn(provider, Budget(max_turns=9, max_tool_calls=2))


async def budget_of_time_overrun() -> "Facts":
    fake, clock = stopped_clock()
    envelope = Envelope.open(Budget(timeout=10), clock)
    return await _turn(ScriptedProvider(LOOK, "Too late."), envelope, [Slow(fake, 10_500)])


async def budget_around_a_day() -> "Facts":
    """Play two turns, of which the second meets the end of the day."""
    config = daily_config(daily_budget=300, enforcement=Enforcement.CUTOFF, warning_thresholds=())
    day = DailyBudgetTracker(config, noon)
    provider = ScriptedProvider(LOOK, "One.", LOOK)
    adapter = ExoclawBudget(BudgetWrapper(provider, day), Budget(max_turns=9))
    loop = agent(adapter, adapter)
    replies = [await loop.process_direct("First?")]
    first = _facts(adapter)
    replies.append(await loop.process_direct("Second?"))
    return {
        "replies": replies,
        "first": first,
        "second": _facts(adapter),
        "daily_tokens": day.total_tokens,
        "calls": len(provider.sent),
    }


async def budget_of_each_turn() -> "Facts":
    provider = ScriptedProvider(LOOK, "One.", LOOK, LOOK, "Two.")
    adapter = ExoclawBudget(provider, Budget(max_turns=4))
    loop = agent(adapter, adapter)
    first = [await loop.process_direct("First?"), _facts(adapter)]
    return {"first": first, "second": [await loop.process_direct("Second?"), _facts(adapter)]}


async def budget_of_an_overflow() -> "Facts":
    provider = ScriptedProvider(LOOK, ContextWindowExceededError("too long"), "Nothing there.")
    return await _turn(provider, Budget(max_turns=9), fallback_model="cheap")


async def budget_of_a_stream() -> "Facts":
    deltas: list[object] = []

    async def on_delta(
        piece: str, stream_end: bool = False, stream_final: bool | None = None
    ) -> None:
        deltas.append(["end", stream_final] if stream_end else piece)

    provider = StreamingProvider(Call("look", "Let me look."), "Nothing there.")
    adapter = ExoclawBudget(provider, Budget(max_turns=2))
    reply = await agent(adapter, adapter).process_direct(QUESTION, on_delta=on_delta)
    return dict(_facts(adapter), reply=reply, deltas=deltas)


async def _team(
    provider: Shared, budget: Budget, turns: int = 1, count: "Any" = None, **limits: "Any"
) -> "list[Facts]":
    """Play turns in which two sub-agents work at the same time."""
    adapter = ExoclawBudget(provider, budget, count_tokens=count)
    children = [adapter.child(name, **limits) for name in ("left", "right")]
    loops = [agent(child, child) for child in children]
    parent = agent(adapter, adapter, tools=[Team(*loops), Tool("look")])
    played = []
    for _ in range(turns):
        before = provider.calls
        reply = await parent.process_direct(QUESTION)
        facts = dict(_facts(adapter), reply=reply, calls=provider.calls - before)
        facts["children"] = [_facts(child) for child in children]
        played.append(dict(facts, sent=provider.main.sent[-1], most=provider.most))
    return played


async def budget_of_a_team() -> "Facts":
    provider = Shared(Call("delegate"), "They looked.", helpers=[LOOK])
    return (await _team(provider, Budget(max_turns=8, max_tool_calls=9)))[0]


async def budget_of_a_teams_tokens() -> "Facts":
    """Let prompts be counted, so that a call waits for what those in flight leave over."""
    provider = Shared(Call("delegate"), "They looked.", helpers=[LOOK])
    return (await _team(provider, Budget(max_tokens=700), 1, lambda messages, tools: 90))[0]


async def budget_of_a_team_with_limits_of_their_own() -> "Facts":
    lines = [Call("delegate"), "They looked.", Call("delegate"), "They looked again."]
    provider = Shared(*lines, helpers=[LOOK])
    played = await _team(provider, Budget(max_turns=20), 2, max_turns=3)
    return {"first": played[0], "second": played[1]}


ALL = (
    budget_of_turns,
    budget_of_tool_calls,
    budget_of_time_overrun,
    budget_around_a_day,
    budget_of_each_turn,
    budget_of_an_overflow,
    budget_of_a_stream,
    budget_of_a_team,
    budget_of_a_teams_tokens,
    budget_of_a_team_with_limits_of_their_own,
)

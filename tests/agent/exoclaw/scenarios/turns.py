"""What a budget sees of whole turns: several, a restart, streams, errors, sub-agents, the bus."""

import asyncio
import os

from exoclaw.bus import InboundMessage
from exoclaw.providers import ContextWindowExceededError

from budget_core import (
    BudgetWrapper,
    DailyBudgetTracker,
    Enforcement,
    FileBudgetStore,
    TurnBudgetPolicy,
)
from budget_core.composite_policy import CompositePolicy

from .agents import Budgets, agent, daily_config, noon, stream
from .parts import (
    LOOK,
    QUESTION,
    Call,
    Delegate,
    Memory,
    ScriptedProvider,
    StreamingProvider,
    Tool,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from exoclaw.agent import AgentLoop

    from .parts import Facts


class Steps:
    """A policy of somebody else's: so many LLM calls, and no more."""

    def __init__(self, most: int) -> None:
        self.most = most

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        return iteration < self.most

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        return f"{iteration} steps are enough."


async def two_turns() -> "Facts":
    budgets = Budgets(ScriptedProvider(LOOK, LOOK, "One.", LOOK, "Two."), iteration_budget=3)
    loop = agent(budgets.wrapper, budgets.policy)
    first = [await loop.process_direct("First?"), budgets.facts()]
    second = [await loop.process_direct("Second?"), budgets.facts()]
    return {"first": first, "second": second}


async def day() -> "Facts":
    """Play a turn of two calls on a day that a file remembers."""
    crossed: list[object] = []
    reached: list[object] = []
    provider = ScriptedProvider(LOOK, "Nothing there.")
    config = daily_config(daily_budget=300, warning_thresholds=(0.3,), enforcement=Enforcement.WARN)
    store = FileBudgetStore(f"{os.getenv('SCENARIO_FOLDER')}/day/budget.json")
    tracker = DailyBudgetTracker(config, noon, store)
    before = tracker.total_tokens
    wrapper = BudgetWrapper(
        provider,
        tracker,
        on_threshold_crossed=lambda **facts: crossed.append(facts),
        on_limit_reached=lambda **facts: reached.append(facts),
    )
    await agent(wrapper).process_direct(QUESTION)
    return {
        "before": before,
        "after": tracker.total_tokens,
        "notices": [line for call in provider.sent for line in call if line[:7] == "user: ["],
        "crossed": crossed,
        "reached": reached,
    }


async def streamed() -> "Facts":
    provider = StreamingProvider(Call("look", "Let me look."), "Nothing there.")
    return await stream(Budgets(provider), QUESTION)


async def asked_to_stream_without_being_able() -> "Facts":
    return await stream(Budgets(ScriptedProvider(LOOK, "Nothing there.")), QUESTION)


async def overflowed() -> "Facts":
    memory = Memory()
    provider = ScriptedProvider(LOOK, ContextWindowExceededError("too long"), "Nothing there.")
    budgets = Budgets(provider)
    loop = agent(budgets.wrapper, budgets.policy, conversation=memory)
    reply = await loop.process_direct(QUESTION)
    return dict(budgets.facts(), reply=reply, recoveries=memory.recoveries)


async def _delegated(provider: ScriptedProvider, **turn: "Any") -> "Facts":
    budgets = Budgets(provider, **turn)
    sub = agent(budgets.wrapper, TurnBudgetPolicy(budgets.turn, begins_turns=False))
    parent = agent(budgets.wrapper, budgets.policy, tools=[Delegate(sub), Tool("look")])
    reply = await parent.process_direct("Have somebody look.")
    return dict(budgets.facts(), reply=reply, sent=provider.sent)


async def delegated() -> "Facts":
    provider = ScriptedProvider(LOOK, Call("delegate"), LOOK, "Empty shelf.", "They saw nothing.")
    return await _delegated(provider)


async def delegated_past_the_limit() -> "Facts":
    return await _delegated(ScriptedProvider(Call("delegate"), LOOK), iteration_budget=3)


async def _composed(first: int, second: int) -> "Facts":
    """Play two turns of that many steps at most, with a budget of two."""
    budgets = Budgets(ScriptedProvider(LOOK), iteration_budget=2)
    steps = Steps(first)
    loop = agent(budgets.wrapper, CompositePolicy(steps, budgets.policy))
    replies = [await loop.process_direct("First?")]
    steps.most = second
    replies.append(await loop.process_direct("Second?"))
    return dict(budgets.facts(), replies=replies)


async def composed() -> "Facts":
    return await _composed(1, 3)


async def composed_and_refused_at_the_start() -> "Facts":
    return await _composed(3, 0)


async def over_the_bus() -> "Facts":
    """Exchange two messages with a running loop, the first of which fails."""
    budgets = Budgets(ScriptedProvider(RuntimeError("no answer"), LOOK, "Nothing there."))
    loop = agent(budgets.wrapper, budgets.policy)
    running = asyncio.create_task(loop.run())
    replies = [await _exchange(loop, "First?")]
    replies.append(await _exchange(loop, "Second?"))
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass
    return dict(budgets.facts(), replies=replies)


async def _exchange(loop: "AgentLoop", question: str) -> str:
    await loop.bus.publish_inbound(InboundMessage("test", "somebody", "room", question))
    while True:
        message = await asyncio.wait_for(loop.bus.consume_outbound(), 30)
        if not message.metadata.get("_progress"):
            return message.content


ALL = (
    two_turns,
    day,
    streamed,
    asked_to_stream_without_being_able,
    overflowed,
    delegated,
    delegated_past_the_limit,
    composed,
    composed_and_refused_at_the_start,
    over_the_bus,
)

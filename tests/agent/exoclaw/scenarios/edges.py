"""What happens as a budget runs down: warnings, tools withdrawn, the end of it."""

from budget_core import (
    BudgetWrapper,
    DailyBudgetTracker,
    Enforcement,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)

from .agents import agent, daily_config, noon, turn_config
from .parts import LOOK, QUESTION, Memory, ScriptedProvider, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parts import Facts, Message


class Tap:
    """A provider that keeps the very lists a loop hands in, to see whether anyone changes them."""

    def __init__(self, inner: "Any") -> None:
        self.inner = inner
        self.given: list[list[Message]] = []

    def get_default_model(self) -> str:
        return str(self.inner.get_default_model())

    async def chat(self, messages: "list[Message]", **options: "Any") -> "Any":
        self.given.append(messages)
        return await self.inner.chat(messages=messages, **options)


async def _turn(lines: "list[Any]", by_policy: bool = False, **budget: "Any") -> "Facts":
    """Play one turn within a turn's budget; unless `by_policy`, only the wrapper may end it."""
    provider, memory = ScriptedProvider(*lines), Memory()
    tracker = TurnBudgetTracker(turn_config(**budget))
    policy = TurnBudgetPolicy(tracker, None if by_policy else Enforcement.OBSERVE)
    tap = Tap(BudgetWrapper(provider, tracker))
    loop = agent(tap, policy, conversation=memory)
    reply = await loop.process_direct(QUESTION)
    return {
        "reply": reply,
        "sent": provider.sent,
        "tools": provider.tools,
        "models": provider.models,
        "history": said(memory.messages),
        "given": [said(messages) for messages in tap.given],
        "iterations": tracker.iterations_seen,
        "tokens": tracker.total_tokens,
    }


async def warned() -> "Facts":
    lines = [LOOK, LOOK, LOOK, "Nothing there."]
    return await _turn(lines, iteration_budget=4, warning_thresholds=(0.5,))


async def listed_tools_stripped() -> "Facts":
    lines = [LOOK, LOOK, "Nothing there."]
    return await _turn(
        lines, iteration_budget=4, tool_strip_threshold=0.5, tool_strip_disallow=("search",)
    )


async def cut_off_by_the_wrapper() -> "Facts":
    return await _turn([LOOK], iteration_budget=2)


async def cut_off_by_the_policy() -> "Facts":
    return await _turn([LOOK], by_policy=True, token_budget=250)


async def demoted() -> "Facts":
    """Spend a day's tokens in the midst of a turn."""
    config = daily_config(daily_budget=150, primary_models=("primary",), fallback_model="cheap")
    provider = ScriptedProvider(LOOK, LOOK, LOOK, "Nothing there.")
    daily = DailyBudgetTracker(config, noon)
    turn = TurnBudgetTracker(turn_config())
    wrapper = BudgetWrapper(BudgetWrapper(provider, daily), turn)
    reply = await agent(wrapper, TurnBudgetPolicy(turn)).process_direct(QUESTION)
    return {
        "reply": reply,
        "models": provider.models,
        "daily_tokens": daily.total_tokens,
        "turn_tokens": turn.total_tokens,
    }


ALL = (
    warned,
    listed_tools_stripped,
    cut_off_by_the_wrapper,
    cut_off_by_the_policy,
    demoted,
)

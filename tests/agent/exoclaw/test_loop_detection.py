"""The budget composed with exoclaw-loop-detection's own policy.

On CPython only: it needs what MicroPython lacks, `collections.Counter`, `json.dumps` with
`sort_keys`, and dataclasses that read their annotations.
"""

import asyncio

import pytest
from exoclaw.providers import LLMProvider, ToolCallRequest
from exoclaw_loop_detection import (  # type: ignore[import-untyped]
    LoopDetectionConfig,
    LoopDetectionPolicy,
)

from budget_core import BudgetWrapper, TurnBudgetPolicy, TurnBudgetTracker
from budget_core.composite_policy import CompositePolicy

from .scenarios.agents import agent, turn_config
from .scenarios.parts import LOOK, QUESTION, ScriptedProvider

STUCK = "I appear to be stuck in a loop — called `look` with the same arguments 3 times."


@pytest.mark.parametrize(
    ("iterations", "ending"),
    [(10, STUCK), (3, STUCK), (2, "[cutoff] 100% of the turn: 2/2 iterations")],
)
def test_loop_detection_and_the_budget_each_speak_for_themselves(
    iterations: int, ending: str
) -> None:
    tracker = TurnBudgetTracker(turn_config(iteration_budget=iterations))
    loops = LoopDetectionPolicy(LoopDetectionConfig(critical_threshold=3))

    async def remember(calls: list[ToolCallRequest]) -> None:
        for call in calls:
            loops.record(call.name, call.arguments)

    provider: LLMProvider = BudgetWrapper(ScriptedProvider(LOOK), tracker)
    policy = CompositePolicy(loops, TurnBudgetPolicy(tracker))
    loop = agent(provider, policy, on_tool_calls=remember)
    assert asyncio.run(loop.process_direct(QUESTION)).startswith(ending)

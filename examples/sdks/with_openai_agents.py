"""Agents that hand off to each other on one budget, with a tool that has a limit of its own.

    pip install 'microbudget[openai-agents]'
    PYTHONPATH=. python examples/sdks/with_openai_agents.py

A scripted model on this machine stands in for OpenAI. Left alone, it would search for ever.
"""

import asyncio

from agents import Agent, OpenAIProvider, Runner, function_tool, set_tracing_disabled

from budget_cpython import budget, budgeted
from budget_cpython.adapters.frameworks.openai_agents import AgentBudgetError
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall

set_tracing_disabled(True)


@function_tool
def search(words: str) -> str:
    """Find recipes."""
    return f"a recipe with {words}"


def reply(asked: Asked) -> Reply:
    """Answer as a model that hands off first, then searches while it is offered the tool."""
    found = [one for one in asked.messages if one["role"] == "tool"]
    for name in ("transfer_to_cook", "search"):
        if name in asked.tools:
            words = f'{{"words": "{len(found)} tomatoes"}}' if name == "search" else "{}"
            return Reply(calls=(ScriptedToolCall(name, words),))
    return Reply(f"I searched {len(found) - 1} times.")


async def main() -> None:
    """Run two agents on five calls and two searches, then once more on what is left: nothing."""
    with ScriptedEndpoint(scripts={"gpt-4o-mini": reply}) as endpoint:
        provider = OpenAIProvider(base_url=endpoint.base_url, api_key="none", use_responses=False)
        model = provider.get_model("gpt-4o-mini")
        cook = Agent(name="cook", model=model, tools=[search])
        first = Agent(name="reception", model=model, handoffs=[cook])
        agent = budgeted(first, "5 calls + 2 tool:search", warning_thresholds=(0.5,))
        with budget("$0.01 + 1 min") as block:
            result = await Runner.run(agent, "What can I cook?")
            for item in result.new_items:
                if item.type == "tool_call_output_item":
                    print("tool:", item.output)
            print("assistant:", result.final_output)
            try:
                await Runner.run(agent, "And tomorrow?")
            except AgentBudgetError as error:
                print("refused:", error.__cause__)
        print(f"used: {block.spent['calls']} calls, ${block.spent['nano_usd'] / 1e9:.6f}")


asyncio.run(main())

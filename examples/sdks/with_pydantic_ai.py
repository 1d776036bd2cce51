"""An agent, and one behind its tool, on one budget; the tool has a limit of its own.

    pip install 'microbudget[pydantic-ai]' 'pydantic-ai-slim[openai]'
    PYTHONPATH=. python examples/sdks/with_pydantic_ai.py

A scripted model on this machine stands in for OpenAI. Left alone, it would ask for ever.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from budget_cpython import budget, budgeted
from budget_cpython.adapters.frameworks.pydantic_ai import ToolBudgetCapability
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


def reply(asked: Asked) -> Reply:
    """Answer as a model that asks the cook for as long as it is offered the tool."""
    answers = [one for one in asked.messages if one["role"] == "tool"]
    if "ask_cook" in asked.tools:
        return Reply(calls=(ScriptedToolCall("ask_cook", '{"question": "What is there?"}'),))
    return Reply(f"I asked the cook {len(answers)} times." if answers else "Tomato soup.")


async def main() -> None:
    """Run the agents on five requests and one question, then once more on what is left."""
    with ScriptedEndpoint(scripts={"gpt-4o-mini": reply}) as endpoint:
        provider = OpenAIProvider(base_url=endpoint.base_url, api_key="none")
        first = OpenAIChatModel("gpt-4o-mini", provider=provider)
        model = budgeted(first, "5 calls + 1 tool:ask_cook", warning_thresholds=(0.5,))
        cook = Agent(model)
        agent = Agent(model, capabilities=[ToolBudgetCapability(model)])

        @agent.tool_plain
        async def ask_cook(question: str) -> str:
            """Ask the cook, who is an agent, too."""
            return (await cook.run(question)).output

        with budget("$0.01 + 1 min") as block:
            result = await agent.run("What can I eat?")
            for message in result.all_messages():
                for part in message.parts:
                    if part.part_kind == "tool-return":
                        print("tool:", part.content)
            print("assistant:", result.output)
            try:
                await agent.run("And tomorrow?")
            except UsageLimitExceeded as error:
                print("refused:", error.__cause__)
        print(f"used: {block.spent['calls']} calls, ${block.spent['nano_usd'] / 1e9:.6f}")


asyncio.run(main())

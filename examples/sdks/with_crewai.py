"""A crew of two agents on one budget: the second one is warned, and answers in time.

    pip install 'microbudget[crewai]'
    PYTHONPATH=. python examples/sdks/with_crewai.py

A scripted model on this machine stands in for OpenAI. Left alone, it would look on for ever.
"""

import os
import tempfile

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": tempfile.mkdtemp(),
}

from crewai import LLM, Agent, Crew, Task
from crewai.hooks import register_before_tool_call_hook
from crewai.tools import tool

from budget_cpython import budget, budgeted
from budget_cpython.adapters.frameworks.crewai import ToolBudgetHook
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


@tool("look")
def look() -> str:
    """Look around."""
    return "a tomato"


def reply(asked: Asked) -> Reply:
    """Answer as a model that looks on until it has enough, or is offered no tools."""
    seen = [one for one in asked.messages if one["role"] == "tool"]
    if asked.tools and len(seen) < (1 if "scout" in str(asked.messages[0]) else 99):
        return Reply(calls=(ScriptedToolCall("look", "{}"),))
    return Reply(f"I looked {len(seen)} times.")


def main() -> None:
    """Run the crew on six calls, and print what the model was told."""
    register_before_tool_call_hook(ToolBudgetHook("2 tool_calls"))
    with ScriptedEndpoint(scripts={"gpt-4o-mini": reply}) as endpoint:
        model = LLM(model="openai/gpt-4o-mini", base_url=endpoint.base_url, api_key="none")
        llm = budgeted(model)  # it draws on the block around the crew
        agents = [
            Agent(role=role, goal="Find food.", backstory="Hungry.", llm=llm, tools=[look])
            for role in ("scout", "cook")
        ]
        tasks = [
            Task(description="Look.", expected_output="What is there.", agent=agent)
            for agent in agents
        ]
        with budget("6 calls + 2 min", warning_thresholds=(0.5,)) as block:
            result = Crew(agents=agents, tasks=tasks).kickoff()
        for request in endpoint.requests:
            last = request.body["messages"][-1]
            print(f"{last['role']}: {last['content']}")
    print(f"cook: {result.raw}")
    print(f"used: {block.spent['calls']} of 6 calls")


if __name__ == "__main__":
    main()

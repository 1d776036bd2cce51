"""The OpenAI Agents SDK."""

import asyncio

import pytest

pytest.importorskip("agents")

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)
from tests.adapters.three_calls.judge import Judged


class OpenAIAgents(Framework):
    """Agents with tools; those of other levels are tools."""

    title, package = "OpenAI Agents SDK", "openai-agents"
    limit, ended = "`max_turns=3`", (3, "raises `MaxTurnsExceeded`")
    ours = "`budgeted(Agent(…))`"

    def run(self, job: Job) -> object:
        return asyncio.run(self.main(job))

    async def main(self, job: Job) -> object:
        tools = [function_tool(job.look)]
        turns = job.limit or UNLIMITED
        async with AsyncOpenAI(base_url=job.endpoint.base_url, api_key="k") as client:
            model = OpenAIChatCompletionsModel(MODEL, client)
            for level in range(job.scenario.levels):
                made = Agent(
                    name=f"a{level}", instructions=job.scenario.system, model=model, tools=tools
                )
                agent = job.budgeted(made)
                tools = [agent.as_tool(f"ask_{level}", "Ask another one.")]
            if not job.scenario.streams:
                return (await Runner.run(agent, PROMPT, max_turns=turns)).final_output
            result = Runner.run_streamed(agent, PROMPT, max_turns=turns)
            async for _ in result.stream_events():
                pass
            return result.final_output


class TestOpenAIAgents(ThreeCalls):
    framework = OpenAIAgents()


class TestJudged(ThreeCalls):
    framework = Judged(
        "openai_agents",
        "OpenAI Agents SDK, the judge's runner",
        "openai-agents",
        "`max_turns=3`",
        (3, "ends without an answer"),
    )

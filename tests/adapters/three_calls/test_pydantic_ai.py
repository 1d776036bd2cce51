"""Pydantic AI."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)


class PydanticAI(Framework):
    """Agents, whose tools ask other agents."""

    title, package = "Pydantic AI", "pydantic-ai-slim"
    limit, ended = "`UsageLimits(request_limit=3)`", (3, "raises `UsageLimitExceeded`")
    ours = "`budgeted(model)`"

    def run(self, job: Job) -> object:
        return asyncio.run(self.main(job))

    async def main(self, job: Job) -> object:
        tools: list[Any] = [job.look]
        provider = OpenAIProvider(base_url=job.endpoint.base_url, api_key="k")
        model = job.budgeted(OpenAIChatModel(MODEL, provider=provider))
        for level in range(job.scenario.levels):
            agent = Agent(model, system_prompt=job.scenario.system, tools=tools)
            tools = [self.as_tool(agent, f"ask_{level}")]
        limits = UsageLimits(request_limit=job.limit or UNLIMITED)
        if not job.scenario.streams:
            return (await agent.run(PROMPT, usage_limits=limits)).output
        async with agent.run_stream(PROMPT, usage_limits=limits) as result:
            return await result.get_output()

    def as_tool(self, agent: Any, name: str) -> Any:
        async def ask(question: str) -> str:
            """Ask another one."""
            return str((await agent.run(question)).output)

        return Tool(ask, name=name)


class TestPydanticAI(ThreeCalls):
    framework = PydanticAI()

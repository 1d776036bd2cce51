"""Frameworks without an adapter: `instrument()` counts the calls of their clients."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("runners")

from agno.agent import Agent as AgnoAgent
from agno.models.openai import OpenAIChat
from google.adk.agents import Agent as AdkAgent
from google.adk.agents import RunConfig
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai.types import HttpRetryOptions
from haystack.components.agents import Agent as HaystackAgent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from strands import Agent as StrandsAgent
from strands import tool
from strands.models.openai import OpenAIModel

from budget_cpython import instrument, uninstrument
from tests.adapters.three_calls.cases import (
    MODEL,
    NOT_REPEATED,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)
from tests.adapters.three_calls.judge import Judged


class Instrumented(Framework):
    """A framework that nothing of ours wraps."""

    ours = "`instrument()`"
    lacks = dict.fromkeys(("S3", "S7", "S10"), "not tried without an adapter")

    def run(self, job: Job) -> object:
        if not job.limit:
            instrument()
        try:
            return self.answer(job)
        finally:
            uninstrument()

    def answer(self, job: Job) -> object:
        """Run an agent to its end, and return its answer."""
        raise NotImplementedError


class Agno(Instrumented):
    """An agent of Agno, whose limit is of tools."""

    title, package = "Agno", "agno"
    limit, ended = "`tool_call_limit=3`", (41, "has no end")

    def answer(self, job: Job) -> object:
        model = OpenAIChat(id=MODEL, base_url=job.endpoint.base_url, api_key="k")
        agent = AgnoAgent(
            model=model,
            tools=[job.look],
            system_message=job.scenario.system,
            tool_call_limit=job.limit,
            telemetry=False,
        )
        return agent.run(PROMPT).content


class GoogleAdk(Instrumented):
    """An agent of Google's ADK, on its own client."""

    title, package = "Google ADK", "google-adk"
    limit, ended = "`RunConfig(max_llm_calls=3)`", (3, "raises `LlmCallsLimitExceededError`")
    lacks = {**Instrumented.lacks, "S11": NOT_REPEATED}

    def answer(self, job: Job) -> object:
        def look(place: str) -> str:
            """Look at a place."""
            return job.look(place)

        model = Gemini(
            model=MODEL,
            base_url=job.endpoint.root_url,
            client_kwargs={"api_key": "k"},
            retry_options=HttpRetryOptions(attempts=3, initial_delay=0.01),
        )
        agent = AdkAgent(name="scout", model=model, instruction=job.scenario.system, tools=[look])
        return asyncio.run(self.events(agent, job.limit or UNLIMITED))

    async def events(self, agent: Any, most: int) -> object:
        runner = InMemoryRunner(agent=agent)
        return await runner.run_debug(PROMPT, run_config=RunConfig(max_llm_calls=most), quiet=True)


class Haystack(Instrumented):
    """An agent of Haystack."""

    title, package = "Haystack", "haystack-ai"
    limit, ended = "`max_agent_steps=3`", (3, "ends without an answer")

    def answer(self, job: Job) -> object:
        def look(place: str) -> str:
            """Look at a place."""
            return job.look(place)

        generator = OpenAIChatGenerator(
            Secret.from_token("k"), MODEL, api_base_url=job.endpoint.base_url
        )
        agent = HaystackAgent(
            chat_generator=generator,
            tools=[create_tool_from_function(look)],
            system_prompt=job.scenario.system,
            max_agent_steps=job.limit or UNLIMITED,
        )
        return agent.run(messages=[ChatMessage.from_user(PROMPT)])["last_message"].text


class Strands(Instrumented):
    """An agent of Strands."""

    title, package = "Strands Agents", "strands-agents"
    limit, ended = '`limits={"turns": 3}`', (3, "ends without an answer")

    def answer(self, job: Job) -> object:
        @tool  # type: ignore[untyped-decorator]
        def look(place: str) -> str:
            """Look at a place."""
            return job.look(place)

        model = OpenAIModel(
            client_args={"base_url": job.endpoint.base_url, "api_key": "k"}, model_id=MODEL
        )
        agent = StrandsAgent(
            model, tools=[look], system_prompt=job.scenario.system, callback_handler=None
        )
        return agent(PROMPT, limits={"turns": job.limit or UNLIMITED})


class TestAgno(ThreeCalls):
    framework = Agno()


class TestGoogleAdk(ThreeCalls):
    framework = GoogleAdk()


class TestHaystack(ThreeCalls):
    framework = Haystack()


class TestStrands(ThreeCalls):
    framework = Strands()


class TestAutoGen(ThreeCalls):
    framework = Judged(
        "autogen",
        "AutoGen, the judge's runner",
        "autogen-agentchat",
        "`MaxMessageTermination(3)`",
        (2, "ends without an answer"),
    )


class TestAgnoStream(ThreeCalls):
    framework = Judged(
        "agno_stream",
        "Agno as a stream, the judge's runner",
        "agno",
        "`tool_call_limit=3`",
        (41, "has no end"),
    )


class TestLlamaIndex(ThreeCalls):
    framework = Judged(
        "llamaindex",
        "LlamaIndex, the judge's runner",
        "llama-index-core",
        "`max_iterations=3`",
        (3, "raises `WorkflowRuntimeError`"),
    )


class TestSemanticKernel(ThreeCalls):
    framework = Judged(
        "semantic_kernel",
        "Semantic Kernel, the judge's runner",
        "semantic-kernel",
        "`maximum_auto_invoke_attempts=3`",
        (4, "answers"),
    )


class TestSwarm(ThreeCalls):
    framework = Judged(
        "swarm",
        "OpenAI Swarm, the judge's runner",
        "openai-swarm",
        "`max_turns=3`",
        (2, "ends without an answer"),
    )

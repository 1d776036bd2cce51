"""smolagents: an agent that calls tools; one that writes code is asked in words."""

from typing import Any

import pytest

pytest.importorskip("smolagents")

from smolagents import OpenAIServerModel, ToolCallingAgent, tool

from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)


class Smolagents(Framework):
    """Agents, those of other levels managed."""

    title, package = "smolagents", "smolagents"
    limit, ended = "`max_steps=3`", (4, "answers")
    ours = "`budgeted(agent)`"

    def run(self, job: Job) -> object:
        @tool  # type: ignore[untyped-decorator]
        def look(place: str) -> str:
            """Look at a place.

            Args:
                place: where to look.
            """
            return job.look(place)

        options: dict[str, Any] = {"tools": [look]}
        for level in range(job.scenario.levels):
            model = OpenAIServerModel(MODEL, api_base=job.endpoint.base_url, api_key="k")
            agent = ToolCallingAgent(
                model=model,
                name=f"ask_{level}",
                description="Another one.",
                instructions=job.scenario.system,
                max_steps=job.limit or UNLIMITED,
                verbosity_level=0,
                stream_outputs=job.scenario.streams,
                **options,
            )
            options = {"tools": [], "managed_agents": [agent]}
        return job.budgeted(agent).run(PROMPT)


class TestSmolagents(ThreeCalls):
    framework = Smolagents()

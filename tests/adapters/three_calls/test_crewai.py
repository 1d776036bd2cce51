"""CrewAI."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("crewai")

import crewai
from crewai.tools import tool

from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)
from tests.adapters.three_calls.judge import Judged


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


class CrewAI(Framework):
    """Crews of one agent, whose tools start other crews."""

    title, package = "CrewAI", "crewai"
    limit, ended = "`max_iter=3`", (4, "answers")
    ours = "`budgeted(LLM(…))`"

    def run(self, job: Job) -> object:
        tools = [tool("look")(job.look)]
        for level in range(job.scenario.levels):
            crew = self.crew(job, tools)
            tools = [self.as_tool(crew, f"ask_{level}")]
        return crew.kickoff().raw

    def crew(self, job: Job, tools: list[Any]) -> Any:
        llm = crewai.LLM(
            model=f"openai/{MODEL}",
            base_url=job.endpoint.base_url,
            api_key="k",
            stream=job.scenario.streams,
        )
        agent = crewai.Agent(
            role="scout",
            goal="Look round.",
            backstory=job.scenario.system,
            llm=job.budgeted(llm),
            tools=tools,
            max_iter=job.limit or UNLIMITED,
        )
        task = crewai.Task(description=PROMPT, expected_output="What is there.", agent=agent)
        return crewai.Crew(agents=[agent], tasks=[task])

    def as_tool(self, crew: Any, name: str) -> Any:
        def ask(question: str) -> str:
            """Ask another one."""
            return str(crew.kickoff().raw)

        return tool(name)(ask)


class TestCrewAI(ThreeCalls):
    framework = CrewAI()


class TestJudged(ThreeCalls):
    framework = Judged(
        "crewai",
        "CrewAI, the judge's runner",
        "crewai",
        "`max_iter=3`",
        (4, "answers"),
    )

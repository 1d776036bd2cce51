"""anthropic: the loop is the client's own tool runner."""

from typing import Any

import pytest

pytest.importorskip("anthropic")

from anthropic import Anthropic, beta_tool

from tests.adapters.three_calls.cases import (
    MODEL,
    NO_AGENTS,
    PROMPT,
    Framework,
    Job,
    ThreeCalls,
)
from tests.adapters.three_calls.judge import Judged


class AnthropicRunner(Framework):
    """The client's tool runner."""

    title, package = "anthropic, its `tool_runner`", "anthropic"
    limit, ended = "`max_iterations=3`", (3, "ends without an answer")
    ours = "`budgeted(Anthropic())`"
    lacks = {"S3": NO_AGENTS, "S10": NO_AGENTS}

    def run(self, job: Job) -> object:
        look = beta_tool(job.look)
        with Anthropic(base_url=job.endpoint.root_url, api_key="k") as client:
            options: dict[str, Any] = {"max_iterations": job.limit} if job.limit else {}
            runner: Any = job.budgeted(client).beta.messages.tool_runner(
                model=MODEL,
                max_tokens=500,
                system=job.scenario.system,
                messages=[{"role": "user", "content": PROMPT}],
                tools=[look],
                stream=job.scenario.streams,
                thread=False,  # or the server has the conversation
                **options,
            )
            for message in runner:
                last = message.get_final_message() if job.scenario.streams else message
            return [block.text for block in last.content if block.type == "text"]


class TestAnthropicRunner(ThreeCalls):
    framework = AnthropicRunner()


class TestJudged(ThreeCalls):
    framework = Judged(
        "anthropic",
        "anthropic, the judge's runner",
        "anthropic",
        "its loop, 3 rounds",
        (3, "ends without an answer"),
    )

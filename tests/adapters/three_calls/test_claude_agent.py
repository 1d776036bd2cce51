"""claude-agent-sdk: its program, whose own calls of the model count as well."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from budget_cpython.run.claude_agent import URL
from tests.adapters.three_calls.cases import (
    MODEL,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)

HAS_PROGRAM = Path(claude_agent_sdk.__file__).with_name("_bundled").joinpath("claude").exists()
QUIET = (
    "CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)


async def prompt() -> AsyncIterator[dict[str, Any]]:
    message = {"role": "user", "content": PROMPT}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "one"}


class ClaudeAgent(Framework):
    """The SDK's program, with a tool of this process."""

    title, package = "claude-agent-sdk", "claude-agent-sdk"
    limit, ended = "`max_turns=3`", (3, "raises `ResultError`")
    ours = "`budgeted(ClaudeAgentOptions(…))`"
    lacks = {"S10": "the agents that an agent starts cannot start others"}

    def __init__(self, home: Path | None = None) -> None:
        self.home = home

    def run(self, job: Job) -> object:
        return asyncio.run(self.main(job))

    async def main(self, job: Job) -> object:
        @tool("look", "Look at a place.", {"place": str})  # type: ignore[untyped-decorator]
        async def look(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": job.look(given["place"])}]}

        job.wanted = ("Agent", "__look") if job.scenario.levels > 1 else ("__look",)
        job.fixed = {"subagent_type": "general-purpose", "description": "Look", "prompt": "Look."}
        home = str(self.home)
        env = {
            **dict.fromkeys(QUIET, "1"),
            "ANTHROPIC_API_KEY": "none",
            "ENABLE_TOOL_SEARCH": "false",  # all tools are offered at once
            "HOME": home,
            "CLAUDE_CONFIG_DIR": home,
            URL: job.endpoint.root_url,
        }
        options = ClaudeAgentOptions(
            model=MODEL,
            cwd=home,
            env=env,
            setting_sources=[],
            system_prompt=job.scenario.system,
            mcp_servers={"house": create_sdk_mcp_server("house", tools=[look])},
            allowed_tools=["mcp__house__look", "Agent", "Task"],
            max_turns=job.limit or UNLIMITED,
        )
        said = None
        async for message in query(prompt=prompt(), options=job.budgeted(options)):
            if isinstance(message, ResultMessage):
                said = message.result
        return said


@pytest.mark.skipif(not HAS_PROGRAM, reason="this wheel has no claude program")
class TestClaudeAgent(ThreeCalls):
    framework = ClaudeAgent()

    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path) -> None:
        self.framework.home = tmp_path

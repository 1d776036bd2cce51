"""Put a budget round an agent of claude-agent-sdk: at its end it answers with what it has found.

The SDK's own program runs, but its model is the embedded endpoint's, which would read a file for
ever. Run it with `pip install 'microbudget[claude-agent]'`:
PYTHONPATH=. python examples/sdks/with_claude_agent.py
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from budget_cpython import budget
from budget_cpython.run.claude_agent import ClaudeBudget
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


def runaway(asked: Asked) -> Reply:
    """Read a file for as long as there are tools."""
    if "Read notes.txt." in str(asked.messages) and asked.tools:
        return Reply(calls=(ScriptedToolCall("Read", '{"file_path": "notes.txt"}'),))
    return Reply("It has one line.")


async def prompt() -> AsyncIterator[dict[str, object]]:
    """Ask by a stream: early versions of the SDK run hooks with nothing else."""
    message = {"role": "user", "content": "Read notes.txt."}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "one"}


async def main(endpoint: ScriptedEndpoint, home: str) -> None:
    """Run the agent until its budget ends it."""
    options = ClaudeAgentOptions(
        model="claude-sonnet-4-5",
        cwd=home,
        allowed_tools=["Read"],
        setting_sources=[],
        env={
            "ANTHROPIC_API_KEY": "none",
            "HOME": home,
            "CLAUDE_CONFIG_DIR": home,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    with (
        budget("9 calls") as block,
        ClaudeBudget("$5 + 2 tool:Read", upstream=endpoint.root_url) as agent_budget,
    ):
        async for message in query(prompt=prompt(), options=agent_budget.options(options)):
            if isinstance(message, ResultMessage):
                print("answer:", message.result)
    print(f"used: {block.spent['calls']} of 9 calls, {block.spent['tool_calls']} tools")


with (
    ScriptedEndpoint(scripts={"claude-sonnet-4-5": runaway}) as endpoint,
    tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
):
    Path(home, "notes.txt").write_text("Whales are mammals.\n")
    asyncio.run(main(endpoint, home))

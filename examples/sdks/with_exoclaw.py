"""Keep exoclaw's agent loop within a budget: it reads until its turns end, then sums up.

The model is the embedded endpoint's, which would read for ever. Run it with
`pip install microbudget exoclaw`: PYTHONPATH=. python examples/sdks/with_exoclaw.py
"""

import asyncio
from typing import Any

from exoclaw.agent import AgentLoop
from exoclaw.bus import MessageBus

from budget_cpython import Budget, ChatClient, ExoclawBudget
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall


class Memory:
    """A conversation that lives as long as the program."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def build_prompt(self, session_id: str, message: str, **context: Any) -> Any:
        """Return what the model reads."""
        return [*self.messages, {"role": "user", "content": message}]

    async def append(self, session_id: str, message: dict[str, Any]) -> None:
        """Keep a message."""
        self.messages.append(message)

    async def post_turn(self, session_id: str) -> None:
        """Do nothing after a turn."""


class Search:
    """A tool that finds books."""

    name = "search"
    description = "Find books."
    parameters = {"type": "object", "properties": {"words": {"type": "string"}}}

    async def execute(self, words: str) -> str:
        """Return how many books there are."""
        print("  search:", words)
        return f"2 books on {words}"


def runaway(asked: Asked) -> Reply:
    """Search for as long as there are tools."""
    if asked.tools:
        return Reply(calls=(ScriptedToolCall("search", '{"words": "whales"}'),))
    return Reply("I found 2 books on whales, and had no time to read them.")


async def main(url: str) -> None:
    """Run one turn of the loop."""
    client = ChatClient(url, "runaway")
    budget = ExoclawBudget(client, Budget(max_turns=4, max_tokens=10_000, timeout=120))
    loop = AgentLoop(MessageBus(), budget, Memory(), iteration_policy=budget, tools=[Search()])
    print("answer:", await loop.process_direct("Which books are there on whales?"))
    print("turns used:", budget.budget.usage()["turns"], "of 4;", budget.reason or "it answered")
    await budget.close()


with ScriptedEndpoint(scripts={"runaway": runaway}) as endpoint:
    asyncio.run(main(endpoint.base_url))

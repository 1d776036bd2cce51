"""exoclaw: its loop, and those that its tools start."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("exoclaw")

from exoclaw.agent import AgentLoop
from exoclaw.bus import MessageBus

from budget_cpython import Budget, ChatClient, ExoclawBudget
from tests.adapters.three_calls.cases import (
    MODEL,
    NOT_REPEATED,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)


class Memory:
    """A conversation that lives as long as the program."""

    def __init__(self, system: str) -> None:
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]

    async def build_prompt(self, session_id: str, message: str, **context: Any) -> Any:
        return [*self.messages, {"role": "user", "content": message}]

    async def append(self, session_id: str, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def post_turn(self, session_id: str) -> None:
        pass


class Function:
    """A tool that calls a function, which may be awaited."""

    description = "Look, or ask another one."
    parameters = {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    }

    def __init__(self, name: str, function: Any) -> None:
        self.name, self.function = name, function

    async def execute(self, place: str) -> str:
        found = self.function(place)
        return str(await found if asyncio.iscoroutine(found) else found)


class Exoclaw(Framework):
    """Loops; those of other levels are tools."""

    title, package = "exoclaw", "exoclaw"
    limit, ended = "`max_iterations=3`", (3, "ends without an answer")
    ours = "`ExoclawBudget(…)`"
    lacks = {
        "S7": "its loop does not stream",
        "S11": NOT_REPEATED,
        "S12": "a turn that has begun keeps its limits",
    }

    def run(self, job: Job) -> object:
        return asyncio.run(self.main(job))

    async def main(self, job: Job) -> object:
        tools = [Function("look", job.look)]
        for level in range(job.scenario.levels):
            loop = self.loop(job, tools)
            tools = [Function(f"ask_{level}", loop.process_direct)]
        return await loop.process_direct(PROMPT)

    def loop(self, job: Job, tools: list[Any]) -> Any:
        client = ChatClient(job.endpoint.base_url, MODEL)
        given: dict[str, Any] = {} if job.limit else {"ledger": job.ledger, "account": "run"}
        budget = ExoclawBudget(client, Budget(max_turns=UNLIMITED), **given)
        ends: dict[str, Any] = (
            {"max_iterations": job.limit} if job.limit else {"iteration_policy": budget}
        )
        memory: Any = Memory(job.scenario.system)
        return AgentLoop(MessageBus(), budget, memory, tools=tools, **ends)


class TestExoclaw(ThreeCalls):
    framework = Exoclaw()

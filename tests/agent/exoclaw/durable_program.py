"""Play a turn of exoclaw's loop in its durable executor, then replay it from the journal.

    python -m tests.agent.exoclaw.durable_program DATABASE ENDPOINT MODEL

Prints what was replied each time, how often the provider was called, and the journal of its calls;
last, what is counted of a turn that goes on after its second answer.
"""

import asyncio
import json
import sys
from typing import Any

import dbos
from dbos import DBOS, SetWorkflowID
from exoclaw.agent import AgentLoop
from exoclaw.agent.tools.registry import ToolRegistry
from exoclaw.bus import MessageBus

from budget_cpython import Budget, ChatClient, ExoclawBudget, Price

from .scenarios.network import ListFiles, ReadFile
from .scenarios.parts import Memory

# The executor builds its queue of messages, which no turn uses, as DBOS no longer allows.
dbos.Queue = lambda *_, **__: None  # type: ignore[assignment, misc]
from exoclaw_executor_dbos import (  # type: ignore[import-untyped] # noqa: E402
    DBOSExecutor,
    run_durable_turn,
    set_loop_context,
)

DATABASE, ENDPOINT, MODEL = sys.argv[1:]
TURN = "the-turn"


class Counted(ChatClient):
    """A client that counts its calls."""

    calls = 0

    async def chat(self, *args: Any, **options: Any) -> Any:
        """Call the model."""
        self.calls += 1
        return await super().chat(*args, **options)


async def main() -> None:
    """Play, and replay."""
    client = Counted(ENDPOINT, MODEL)
    prices = {MODEL: Price(1, 1)}
    budget = ExoclawBudget(client, Budget(max_turns=6, max_tokens=20_000), prices=prices)
    memory: Any = Memory()
    tools: Any = [ListFiles("list_files"), ReadFile("read_file")]
    loop = AgentLoop(
        MessageBus(), budget, memory, tools=tools, registry=ToolRegistry(),
        iteration_policy=budget, executor=DBOSExecutor(),
    )  # fmt: skip
    set_loop_context(loop)
    with SetWorkflowID(TURN):
        reply, _ = await run_durable_turn("session", "What do the files say?")
    steps = await DBOS.list_workflow_steps_async(TURN)
    journal = [step["output"] for step in steps if step["function_name"] == "_chat_step"]
    calls = client.calls
    rerun = await DBOS.fork_workflow_async(TURN, 10_000)
    again, _ = await rerun.get_result(polling_interval_sec=0.01)
    print(json.dumps({"reply": reply, "calls": calls, "journal": journal}))
    print(json.dumps({"reply": again, "calls": client.calls - calls}))
    third = [step["function_id"] for step in steps if step["function_name"] == "_chat_step"][2]
    calls, client.calls = client.calls, 0
    rerun = await DBOS.fork_workflow_async(TURN, third)
    await rerun.get_result(polling_interval_sec=0.01)
    used = budget.budget
    print(
        json.dumps(
            {
                "calls": client.calls,
                "turns": used.turns.used,
                "tool_calls": used.tool_calls.used,
                "tokens": used.tokens.used,
                "nano_usd": used.nano_usd.used,
                "estimated": used.estimated,
            }
        )
    )


config: Any = {
    "name": "microbudget-test", "system_database_url": DATABASE, "log_level": "CRITICAL",
}  # fmt: skip
DBOS(config=config)
DBOS.launch()
try:
    asyncio.run(main())
finally:
    DBOS.destroy()

"""The same around our chat client, with an endpoint at the other end of a socket."""

import os

from budget_core import Budget, ChatClient, ExoclawBudget
from budget_core.chat.refusal import ContextWindowExceededError

from .agents import Budgets, agent, stream
from .parts import Memory, Tool, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parts import Facts

NOTICE = "[Budget notice] {used}/{cap} {unit}"
FILES = {"garden.md": "# Garden\nWater twice.", "todo.txt": "Buy seeds.", "zoo.txt": "Closed."}


class ListFiles(Tool):
    """The tool that the endpoint's model looks around with."""

    description = "Lists the files."
    parameters = {"type": "object", "properties": {}}

    async def execute(self, **arguments: object) -> str:
        return "\n".join(sorted(FILES))


class ReadFile(Tool):
    """The tool that the endpoint's model reads with, again and again until it is told to end."""

    description = "Reads a file."
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }

    async def execute(self, **arguments: "Any") -> str:
        return FILES[arguments["path"]]


def _budgets(model: str = "scripted", **turn: "Any") -> Budgets:
    client = ChatClient(os.getenv("SCENARIO_ENDPOINT") or "", model, retries=0)
    return Budgets(client, **turn)


def _tools() -> "list[Tool]":
    return [ListFiles("list_files"), ReadFile("read_file")]


async def wound_down() -> "Facts":
    """Read on until the warning; the model heeds it."""
    memory = Memory()
    budgets = _budgets(iteration_budget=8, warning_thresholds=(0.5,), warning_template=NOTICE)
    loop = agent(budgets.wrapper, budgets.policy, tools=_tools(), conversation=memory)
    reply = await loop.process_direct("What do the files say?")
    return dict(budgets.facts(), reply=reply, history=said(memory.messages))


async def wound_down_as_a_stream() -> "Facts":
    budgets = _budgets(iteration_budget=8, warning_thresholds=(0.5,), warning_template=NOTICE)
    return await stream(budgets, "What do the streamed files say?", tools=_tools())


async def malformed() -> "Facts":
    """Call tools with arguments that are no object, until the budget ends it."""
    memory = Memory()
    budgets = _budgets("bad-arguments", iteration_budget=2)
    loop = agent(budgets.wrapper, budgets.policy, tools=_tools(), conversation=memory)
    reply = await loop.process_direct("What do the files say?")
    return dict(budgets.facts(), reply=reply, history=said(memory.messages))


async def _overflown(provider: "Any", policy: "Any") -> "Facts":
    """Ask in a conversation that is too long for the model, which the loop then shortens."""
    memory = Memory()
    memory.messages = [{"role": "user", "content": "tomato " * 200}]
    memory.messages += [{"role": "assistant", "content": "Well."}]
    loop = agent(provider, policy, conversation=memory)
    reply = await loop.process_direct("Anything?")
    return {"reply": reply, "recoveries": memory.recoveries}


async def overflown_in_a_budget() -> "Facts":
    client = ChatClient(os.getenv("SCENARIO_ENDPOINT") or "", "small-context")
    adapter = ExoclawBudget(client, Budget(max_turns=4))
    saw = await _overflown(adapter, adapter)
    return dict(saw, usage=adapter.budget.usage())


async def overflown_in_wrappers() -> "Facts":
    budgets = _budgets("small-context")
    try:
        saw = await _overflown(budgets.wrapper, budgets.policy)
    except ContextWindowExceededError as error:  # our own: MicroPython's errors have one base
        saw = {"status": error.status}
    return dict(budgets.facts(), **saw)


ALL = (
    wound_down,
    wound_down_as_a_stream,
    malformed,
    overflown_in_a_budget,
    overflown_in_wrappers,
)

"""Offer an agent as a tool to another one."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.tool import Tool
from budget_core.durations import inf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.deadline_token import DeadlineToken


def tool_of(
    agent: "Any", name: str, description: str, essential: bool, limits: "dict[str, Any]"
) -> Tool:
    """Return an operative as a tool; `limits` are those of a `Budget` for each call.

    Raises `ValueError` where the agent's own budget is an `Envelope`.
    """
    if not isinstance(agent.budget, Budget):
        raise ValueError(f"{name} needs a Budget for each of its runs, not an Envelope")
    limit = agent.budget.replace(**limits)

    async def work(task: str, budget: "Any", token: "DeadlineToken") -> str:
        least = min(token.remaining_s(), inf if limit.timeout is None else limit.timeout)
        child = budget.child(limit.replace(timeout=least), name)
        run = agent.begin(task, child)
        token.on_cancel(lambda: None if run.result else run.cancel())
        try:
            await run.finish()
        except asyncio.CancelledError:
            pass  # what it did is handed back all the same
        result: Any = run.result
        return result.text if result.completed else f"[Stopped: {result.reason}]\n{result.text}"

    task = {"type": "string", "description": "what is to be done, all that is to be known"}
    parameters = {"type": "object", "properties": {"task": task}, "required": ["task"]}
    return Tool(name, description, work, parameters, None, True, True, essential)

"""A run whose tool calls of one answer run side by side."""

import asyncio
from asyncio import Task
from collections.abc import Callable
from typing import Any

from budget_core.agent import run as core_run
from budget_core.agent.stop import StopReason
from budget_core.agent.toolbox import CALLED_OFF, CANCELLED, DENIED, ToolEnd
from budget_core.provider import ToolCall


class Event:
    """Something that happened in a run: its `kind`, and its fields as attributes."""

    def __init__(self, kind: str, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["fields"][name]
        except KeyError:
            raise AttributeError(f"this event has no {name}") from None

    def __repr__(self) -> str:
        return f"<Event {self.kind}: {', '.join(self.fields)}>"


class ParallelRun(core_run.Run):
    """A run whose tool calls of one answer run side by side, admitted one by one."""

    watcher: Callable[[Event], object] | None = None

    async def _call_tools(self, calls: list[ToolCall]) -> StopReason | None:
        once = {id(call) for call in calls}
        if len(once) < len(calls):  # a provider may give the same object twice
            calls = [ToolCall(call.id, call.name, call.arguments) for call in calls]
        self._asked = calls
        reason: StopReason | None = None
        begun: dict[int, Task[ToolEnd] | None] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for number, call in enumerate(calls):
                    if reason is None:
                        end, reason = await self._begin_tool_call(call)
                        begun[id(call)] = None
                        if end is not None:
                            self._toolbox.ends[id(call)] = end
                        else:
                            running = self._toolbox.run(call, self._trace_id(call, number))
                            begun[id(call)] = group.create_task(running)
                return await self._close_all(calls, begun, reason)
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None

    async def _close_all(
        self,
        calls: list[ToolCall],
        begun: dict[int, Task[ToolEnd] | None],
        reason: StopReason | None,
    ) -> StopReason | None:
        """End the calls in their order; those that run when one stops the run are cancelled."""
        waiting = {task for task in begun.values() if task is not None}
        for call in calls:
            if id(call) not in begun:
                self._record(call, ToolEnd(DENIED, core_run.NOT_CALLED))
                continue
            task = begun[id(call)]
            while task is not None and not task.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if any(_stops(one) for one in done):
                    await _cancelled(waiting)
            end = self._toolbox.ends.get(id(call))
            if task is not None and not task.cancelled():
                end = task.result()
            found = await self._end_tool_call(call, end or ToolEnd(CANCELLED, CALLED_OFF))
            if found is not None and self.budget.why_over() is None:
                await _cancelled(waiting)  # else they are ending by themselves
            reason = found or reason
        return reason

    def emit(self, kind: str, **fields: Any) -> None:
        """Pass an event to `on_event` and to the loop that iterates over the run."""
        if self.watcher is not None:
            self.watcher(Event(kind, fields))
        super().emit(kind, **fields)


def _stops(task: Task[ToolEnd]) -> bool:
    return not task.cancelled() and task.result().stop_reason is not None


async def _cancelled(tasks: set[Task[ToolEnd]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)

"""Run the tools of an operative through a `BoundedToolExecutor`."""

from collections.abc import Sequence
from contextlib import suppress

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.stop import in_words
from budget_core.agent.tool import Tool
from budget_core.agent.toolbox import COMPLETED, FAILED, Toolbox, ToolEnd, as_end
from budget_core.provider import ToolCall
from budget_cpython.agent.envelope import Envelope
from budget_cpython.executor import BoundedToolExecutor, ToolOutcome
from budget_cpython.turn import TurnRuntimeState


class ExecutorToolbox(Toolbox):
    """Runs tools through a `BoundedToolExecutor`: those that are not async run in threads."""

    def __init__(
        self,
        tools: Sequence[Tool],
        envelope: Envelope,
        state: TurnRuntimeState,
        executor: BoundedToolExecutor,
    ) -> None:
        super().__init__(tools, envelope, state)
        self._shared = (envelope, state)
        self.executor = executor

    async def run(self, call: ToolCall, trace_id: str) -> ToolEnd:
        """Call a tool and return how that ended; raises nothing."""
        tool = self.tools[call.name]

        def record(outcome: ToolOutcome) -> None:
            if id(call) not in self.ends:  # else the tool's own thread has made a text of it
                self.ends[id(call)] = _end_of(outcome)

        async def execute() -> None:
            named = self.keywords(tool, call)
            try:
                outcome = await self.executor.execute_async(
                    tool, named, *self._shared, trace_id=trace_id, on_end=record
                )
            except Exception as error:  # noqa: BLE001 - a tool the executor does not take
                outcome = ToolOutcome(FAILED, call.name, trace_id, reason=in_words(error))
            finally:
                self.stop_child(named)
            record(outcome)

        with suppress(CutShortError):
            await call_within(self.envelope, execute, timed=False)
        return self.ends.get(id(call)) or self.cut_short(call.name)


def _end_of(outcome: ToolOutcome) -> ToolEnd:
    if outcome.status != COMPLETED:
        return ToolEnd(outcome.status, f"Error: {outcome.reason}")
    try:
        return as_end(outcome.value)  # its usage is counted by the executor, also if it is late
    except Exception as error:  # noqa: BLE001 - what a tool returns may have no text
        return ToolEnd(FAILED, "Error: " + in_words(error))

"""The executor of tools within a turn's budget: it comes back in time whatever they do."""

from collections.abc import Callable, Mapping
from typing import Any

from budget_core.durations import in_ms
from budget_core.errors import refuse
from budget_cpython.executor.call import BoundedCall, DeniedError, ExecutorSettings
from budget_cpython.executor.outcome import ToolOutcome
from budget_cpython.executor.slots import Slots, SlotsBusyError
from budget_cpython.turn import TurnBudget, TurnRuntimeState


class BoundedToolExecutor:
    """Runs tools, each within its cap and its turn's time, and never waits for one that hangs.

    - `max_abandoned`: how many tools may outlive their time. A thread cannot be killed: a tool
      whose time is over is left behind until it ends by itself, and its result is dropped. Any tool
      may hang, so at most as many run at the same time. Further calls wait for a slot within their
      time, and are denied at once while abandoned tools have every slot.
    - `cap_s`: seconds that a call may take, where `caps` (by the tool's name) and the tool's own
      `tool_options` say nothing; `None` leaves the turn's time as the only limit.
    - `grace_s`: how long before its time is over a cooperative tool is told to stop, so that its
      partial result is in time; at most a tenth of its time.
    - `kill_grace_s`: seconds that a tool's process has from TERM to KILL.
    - `on_usage(usage)`: called with the usage of each result that has any (an attribute or a key
      `usage`), also of late ones; a tracker's `record` fits. The state's counts have it already.
    - `on_late(outcome)`: called with what came too late and was dropped.

    The time is bounded by `Deadline.current()` as well. One executor serves any number of turns and
    threads, but a tool that calls tools needs another executor for those: it has a slot itself. A
    call waits for its hooks, so they should be quick.
    """

    def __init__(
        self,
        *,
        max_abandoned: int | None = 8,
        cap_s: float | None = None,
        caps: Mapping[str, float | None] | None = None,
        grace_s: float = 1.0,
        kill_grace_s: float = 1.0,
        on_usage: Callable[[Any], object] | None = None,
        on_late: Callable[[ToolOutcome], object] | None = None,
    ) -> None:
        for name, seconds in (("grace_s", grace_s), ("kill_grace_s", kill_grace_s)):
            in_ms(name, seconds)
        caps = {} if caps is None else caps
        if not isinstance(caps, Mapping):
            refuse("caps", "a dict of seconds by the names of tools", caps)
        named = {f"the cap of {name}": cap for name, cap in caps.items()}
        for name, cap in {"cap_s": cap_s, **named}.items():
            if cap is not None:
                in_ms(name, cap)
        self._slots = Slots(max_abandoned)
        self._settings = ExecutorSettings(
            self._slots, on_usage, on_late, cap_s, caps, grace_s, kill_grace_s
        )

    @property
    def abandoned(self) -> int:
        """Tools that outlived their time and still run."""
        return self._slots.abandoned

    @property
    def running(self) -> int:
        """Tools that run within their time."""
        return self._slots.running

    @property
    def waiting(self) -> int:
        """Calls that wait for a slot."""
        return self._slots.waiting

    @property
    def hook_error(self) -> BaseException | None:
        """The last error that a hook, or a callback of a token, raised."""
        return self._settings.hook_error

    def execute(
        self,
        tool: Any,
        arguments: dict[str, Any],
        budget: TurnBudget,
        state: TurnRuntimeState,
        cap_s: float | None = None,
        *,
        trace_id: str | None = None,
    ) -> ToolOutcome:
        """Call a tool in a thread and return what came of it, at the latest when its time is over.

        `tool` is a function, or has one as `run` and a `name`; `arguments` are its keywords.
        `cap_s` overrides any other cap. `trace_id` must be new to the state; by default one is
        made. What the tool raises is in the outcome. Raises `TypeError` or `ValueError` for
        arguments that are wrong, an async tool among them: `execute_async` takes those.
        """
        call = BoundedCall(self._settings, tool, arguments, budget, state, cap_s, trace_id)
        if call.is_async:
            raise TypeError(f"{call.name} is async: await execute_async(...) instead")
        try:
            call.check()
            self._slots.take(call, call.left_s)
            call.claim()
        except (DeniedError, SlotsBusyError) as denied:
            return call.denied(denied)
        call.run()
        return call.result()

    async def execute_async(
        self,
        tool: Any,
        arguments: dict[str, Any],
        budget: TurnBudget,
        state: TurnRuntimeState,
        cap_s: float | None = None,
        *,
        trace_id: str | None = None,
        on_end: Callable[[ToolOutcome], object] | None = None,
    ) -> ToolOutcome:
        """Call a tool as `execute` does, and let the running loop go on meanwhile.

        An async tool runs as a task of the loop and is cancelled when its time is over; one that
        does not end even then is abandoned. Any other runs in a thread. If this call is cancelled,
        so is the tool. `on_end(outcome)` is called, by any thread, as soon as a tool that was
        started has ended or is given up: also where this call is cancelled and returns nothing.
        """
        call = BoundedCall(self._settings, tool, arguments, budget, state, cap_s, trace_id)
        call.on_end = on_end
        try:
            call.check()
            await self._slots.take_async(call, call.left_s)
            call.claim()
        except (DeniedError, SlotsBusyError) as denied:
            return call.denied(denied)
        await call.run_async()
        return call.result()

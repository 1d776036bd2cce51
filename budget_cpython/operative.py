"""The core's operative on CPython: events to iterate over, tools side by side, a sync call."""

import asyncio
from asyncio import Queue, Task
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from math import inf
from typing import Any, cast

from budget_core import budget as core_budget
from budget_core import envelope as core_envelope
from budget_core import operative as core
from budget_core import run as core_run
from budget_core import turn_state as core_state
from budget_core.flight import CutShortError, fly, is_over
from budget_core.provider import ToolCall
from budget_core.result import OperativeResult
from budget_core.stop import StopReason, in_words
from budget_core.tool import Tool
from budget_core.toolbox import CALLED_OFF, CANCELLED, DENIED, FAILED, Toolbox, ToolEnd, ended
from budget_cpython.deadline import current_or_none
from budget_cpython.envelope import Envelope
from budget_cpython.executor import BoundedToolExecutor
from budget_cpython.executor.outcome import COMPLETED, ToolOutcome
from budget_cpython.turn import TurnRuntimeState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import Provider

Budgeted = core_budget.Budget | core_envelope.Envelope
Question = str | Sequence[dict[str, Any]]


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


class ExecutorToolbox(Toolbox):
    """Runs tools through a `BoundedToolExecutor`: what is not async runs in threads."""

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
        ends: list[ToolEnd] = []

        def land(outcome: ToolOutcome) -> None:
            if not ends:
                ends.append(_end_of(outcome))
                self.landed[id(call)] = ends[0]

        async def execute() -> None:
            named = self.handed(tool, call)
            try:
                outcome = await self.executor.execute_async(
                    tool, named, *self._shared, trace_id=trace_id, on_end=land
                )
            except Exception as error:  # noqa: BLE001 - a tool the executor does not take
                outcome = ToolOutcome(FAILED, call.name, trace_id, reason=in_words(error))
            finally:
                self.take_back(named)
            land(outcome)

        try:
            await fly(execute, self.envelope)
        except CutShortError:
            pass
        return ends[0] if ends else self.cut_short(call.name)


def _end_of(outcome: ToolOutcome) -> ToolEnd:
    if outcome.status != COMPLETED:
        return ToolEnd(outcome.status, f"Error: {outcome.reason}")
    try:
        return ended(outcome.value)  # its usage is counted by the executor, also if it is late
    except Exception as error:  # noqa: BLE001 - what a tool returns may have no text
        return ToolEnd(FAILED, "Error: " + in_words(error))


def _stops(task: Task[ToolEnd]) -> bool:
    return not task.cancelled() and task.result().stop_reason is not None


async def _cancelled(tasks: set[Task[ToolEnd]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


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
                        end, reason = await self._open(call)
                        begun[id(call)] = None
                        if end is not None:
                            self._toolbox.landed[id(call)] = end
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
            end = self._toolbox.landed.get(id(call))
            if task is not None and not task.cancelled():
                end = task.result()
            found = await self._close(call, end or ToolEnd(CANCELLED, CALLED_OFF))
            if found is not None and not is_over(self.budget):  # else they are ending by themselves
                await _cancelled(waiting)
            reason = found or reason
        return reason

    def emit(self, kind: str, **fields: Any) -> None:
        """Tell `on_event`, and whoever iterates over the run, what happened."""
        if self.watcher is not None:
            self.watcher(Event(kind, fields))
        super().emit(kind, **fields)


class Running(Coroutine[Any, Any, OperativeResult]):
    """A run to be awaited for its result, as often as you like, or iterated over for its events.

    Either may be ended early by `cancel`. A loop over the events that is left early cancels the
    run; the last event, `completed` or `stopped`, has the `result`.
    """

    def __init__(self, run: ParallelRun) -> None:
        self._run = run
        self._finish: Coroutine[Any, Any, OperativeResult] | None = None
        self._task: Task[OperativeResult] | None = None
        self._over: asyncio.Event | None = None

    @property
    def budget(self) -> Envelope:
        """The run's envelope: to watch, `extend`, `stop` or pause it from outside."""
        return cast(Envelope, self._run.budget)

    @property
    def result(self) -> OperativeResult | None:
        """What the run came to, `None` until it has ended."""
        return self._run.result

    def cancel(self, reason: str = "") -> None:
        """Stop the run and what it has in flight; any thread may."""
        self._run.cancel(reason)

    def __await__(self) -> Generator[Any, None, OperativeResult]:
        return self._ended().__await__()

    def send(self, value: Any) -> Any:
        """Go on, as event loops do."""
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error, as event loops do."""
        return self._coroutine().throw(*error)

    def close(self) -> None:
        """Leave the run where it is."""
        if self._finish is not None:
            self._finish.close()

    def _coroutine(self) -> Coroutine[Any, Any, OperativeResult]:
        if self._finish is None:
            self._finish = self._ended()
        return self._finish

    async def _ended(self) -> OperativeResult:
        if self._task is not None:
            await asyncio.wait({self._task})
        if self._over is not None:
            await self._over.wait()
        if self._run.result is not None:
            return self._run.result
        self._over = asyncio.Event()
        try:
            return await self._run.finish()
        finally:
            self._over.set()

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._task or self._over or self._run.result is not None:
            raise RuntimeError("the events of a run are told once, to one loop over them")
        return self._events()

    async def _events(self) -> AsyncGenerator[Event, None]:
        queue: Queue[Event | None] = Queue()
        self._run.watcher = queue.put_nowait
        task = self._task = asyncio.create_task(self._run.finish())
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


class Operative(core.Operative):
    """An agent: a model, its tools, and what each of its runs may use. Source: seed 004.

    `await operative.run(…)` gives the result, `async for event in operative.run(…)` the events as
    they happen. Tools that are not async run in threads of `executor`, by default one of the
    operative's own: calls of one answer run side by side. Everything else is the core's.
    """

    ENVELOPE = Envelope
    STATE = TurnRuntimeState
    RUN = ParallelRun

    def __init__(
        self,
        provider: "Provider",
        tools: Sequence[Tool] = (),
        budget: Budgeted | None = None,
        system_prompt: str = "",
        *,
        executor: BoundedToolExecutor | None = None,
        **options: Any,
    ) -> None:
        self.executor = executor or BoundedToolExecutor()
        super().__init__(provider, tools, budget, system_prompt, **options)

    def run(self, messages: Question, budget: Budgeted | None = None) -> Running:
        """Return a run, whose time counts from now, to be awaited or iterated over.

        It is stopped for the reason in the result, never by an exception of the model's or a
        tool's. If whoever awaits it is cancelled, so are its calls; an envelope that was given is
        stopped then, and its `continuation()` has the rest.
        """
        return Running(self.begin(messages, budget))

    def run_sync(self, messages: Question, budget: Budgeted | None = None) -> OperativeResult:
        """Return what a run comes to, where no event loop is running.

        Ctrl-C is raised when its tools have been cancelled; the event `stopped` has what there is.
        Raises `RuntimeError` where one is: `await operative.run(…)` there.
        """
        if _is_in_loop():
            raise RuntimeError("an event loop is running here: await operative.run(…) instead")
        return asyncio.run(self.run(messages, budget))

    def begin(self, messages: Question, budget: Budgeted | None = None) -> ParallelRun:
        """Return a run, whose time counts from now, to `finish`.

        A budget's timeout is at most what `Deadline.current()` has left.

        Raises `TypeError` for an envelope of the core's, which threads may not share.
        """
        around = current_or_none()
        given = self.budget if budget is None else budget
        if around is not None and isinstance(given, core_budget.Budget):
            own = inf if given.timeout is None else given.timeout
            given = given.replace(timeout=min(own, around.remaining_seconds()))
        return cast(ParallelRun, super().begin(messages, given))

    def toolbox(
        self, envelope: core_envelope.Envelope, state: core_state.TurnRuntimeState
    ) -> ExecutorToolbox:
        """Return what calls the tools of one run."""
        if not isinstance(envelope, Envelope):
            raise TypeError(f"an envelope must be budget_cpython's, not {envelope!r}")
        return ExecutorToolbox(self.tools, envelope, cast(TurnRuntimeState, state), self.executor)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

"""One tool call of a turn: it runs, and one of its ends counts."""

import asyncio
from asyncio import CancelledError, Task
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from time import monotonic_ns
from typing import Any

from budget_core.agent.stop import in_words
from budget_core.agent.toolbox import DENIED, FAILED, count_reported
from budget_core.errors import DeadlineExceeded
from budget_core.log import log
from budget_core.turn_state import COMPLETED, TIMED_OUT
from budget_core.waking import from_any_thread
from budget_cpython.context.deadline import DeadlineToken, current_or_none, set_current
from budget_cpython.executor.options import describe
from budget_cpython.executor.outcome import ToolKilled, ToolOutcome
from budget_cpython.executor.slots import Slots, SlotsBusyError, happens
from budget_cpython.executor.threads import THREADS, ends_within
from budget_cpython.turn import TurnBudget, TurnRuntimeState

CLEAN_UP_S = 0.025
_numbers = count(1)


class DeniedError(Exception):
    """A tool call is not to be started, and another try would not be either."""


@dataclass(slots=True)
class ExecutorSettings:
    """The settings of all calls of an executor; see `BoundedToolExecutor`."""

    slots: Slots
    on_usage: Callable[[Any], object] | None
    on_late: Callable[[ToolOutcome], object] | None
    cap_s: float | None
    caps: Mapping[str, float | None]
    grace_s: float
    kill_grace_s: float
    hook_error: BaseException | None = None

    def call_hook(self, hook: Callable[..., object] | None, *arguments: object) -> None:
        """Call a user's function, if there is one, and keep the last error of all of them.

        The first error is logged, and no error breaks a call.
        """
        try:
            if hook is not None:
                hook(*arguments)
        except BaseException as error:  # noqa: BLE001 - a tool's outcome must not be lost with it
            if self.hook_error is None:
                log("error", f"a hook of the tool executor raised {type(error).__name__}")
            self.hook_error = error


class BoundedCall:
    """A tool call: `check` it, take a slot for it, `claim` it, `run` it, and take its `result`.

    A tool that does not end in time is given up. The state's trace decides which came first, the
    tool's end or the end of its time.
    """

    stopped = given_up = False
    on_end: Callable[[ToolOutcome], object] | None = None
    task: Task[None] | None = None
    outcome: ToolOutcome | None = None

    def __init__(
        self,
        settings: ExecutorSettings,
        tool: Any,
        arguments: dict[str, Any],
        budget: TurnBudget,
        state: TurnRuntimeState,
        cap_s: float | None,
        trace_id: str | None,
    ) -> None:
        if not isinstance(arguments, dict):
            raise TypeError(f"arguments must be a dict, not {arguments!r}")
        if not isinstance(budget, TurnBudget) or not isinstance(state, TurnRuntimeState):
            raise TypeError(
                "budget and state must be budget_cpython's, which threads may share, "
                f"not {budget!r} and {state!r}"
            )
        self.name, self.function, self.options, self.is_async = describe(tool)
        if self.is_async and self.options.process:
            raise TypeError(f"{self.name} is async: a tool with process=True is a plain function")
        self.settings = settings
        self.slots = settings.slots
        self.arguments = arguments
        self.budget = budget
        self.state = state
        self.trace_id = f"{self.name}#{next(_numbers)}" if trace_id is None else trace_id
        self._bound(cap_s)
        self.since = monotonic_ns()

    def _bound(self, cap_s: float | None) -> None:
        """Set how long the call may take, and tell a tool that takes a token or has a process."""
        name, options, settings = self.name, self.options, self.settings
        if cap_s is None:
            own = options.cap_s
            cap_s = settings.caps.get(name, settings.cap_s if own is None else own)
        hard_s = self.budget.per_tool_remaining_s(cap_s)
        around = current_or_none()
        if around is not None:
            hard_s = min(hard_s, around.remaining_seconds())
        if options.cooperative and hard_s < inf:
            cap_s = hard_s - min(settings.grace_s, hard_s / 10)
        self.hard_s = hard_s
        self.token = DeadlineToken.from_budget(self.budget, cap_s)
        if options.process:
            from budget_cpython.executor.processes import run_in_process

            work = (name, self.function, self.arguments, options.cooperative)
            self.function = partial(run_in_process, *work, self.token, settings.kill_grace_s)
            self.arguments = {}
        elif options.cooperative:
            self.arguments = {**self.arguments, "token": self.token}

    def left_s(self) -> float:
        """Return the seconds until this call is to be given up."""
        return max(0.0, self.hard_s - (monotonic_ns() - self.since) / 1e9)

    def check(self) -> None:
        """Raise `DeniedError` if the tool may not be started."""
        if not self.state.is_accepting_writes():
            raise DeniedError("the turn is over: it accepts no more writes")
        if self.name in self.state.blocked_tool_names:
            raise DeniedError(f"{self.name} is blocked for the rest of the turn")
        if self.budget.is_expired():
            raise DeniedError("the turn's time is over")
        if self.hard_s <= 0:
            raise DeniedError(f"{self.name} may take 0 s")

    def claim(self) -> None:
        """Use one tool call of the turn, or give the slot back and raise `DeniedError`."""
        try:
            self.check()  # again: it may have waited for its slot
            claim = partial(self.budget.claim_tool_call, self.name)
            if not self.state.set_trace_running(self.trace_id, self.name, claim):
                self.check()
                calls = self.budget.tool_calls
                if calls.cap is None or calls.used < calls.cap:
                    raise DeniedError(f"all calls that {self.name} may have are used")
                raise DeniedError(f"all {calls.cap} tool calls of the turn are used")
        except BaseException:
            self.slots.free(self)
            raise

    def denied(self, error: DeniedError | SlotsBusyError) -> ToolOutcome:
        """Return the outcome of a call that was not started."""
        is_busy = isinstance(error, SlotsBusyError)
        return self.outcome_now(DENIED, reason=str(error))._replace(retryable=is_busy)

    def run(self) -> None:
        """Run the tool in a thread, to its end or until its time is over."""
        try:
            future = self._start()
            in_time = ends_within(future, self.left_s())
        except BaseException:  # Ctrl-C comes here
            self.give_up()
            raise
        if not in_time and not self.give_up():
            ends_within(future, inf)

    async def run_async(self) -> None:
        """Run the tool as `run` does, an async one in a task, without blocking the loop."""
        done = asyncio.Event()
        tell = from_any_thread(done.set)
        try:
            self._start_async().add_done_callback(lambda _: tell())
            if await happens(done, self.left_s()):
                return
            if not self.give_up():
                await done.wait()
                return
            if self.on_end is not None:
                self.settings.call_hook(self.on_end, self.result())
            await self._stop_task()
        except BaseException:
            try:  # what the tool returns as it is cancelled still counts
                await self._stop_task()
            finally:
                left = self.given_up or self.give_up()
            if not left:
                await happens(done, CLEAN_UP_S)
            raise

    def _start(self) -> "Future[None]":
        try:
            return self.slots.start(self, self._work)
        except RuntimeError as error:  # the system gives no more threads
            self._end(None, error)
            future: Future[None] = Future()
            future.set_result(None)
            return future

    def _start_async(self) -> "Future[None] | Task[None]":
        if not self.is_async:
            return self._start()
        self.task = asyncio.create_task(self._work_async())
        self.task.add_done_callback(self._leave)
        return self.task

    def _work(self) -> None:
        try:
            set_current(self.token.deadline)  # in a context of this call's own
            value = self.function(**self.arguments)
            if hasattr(value, "__await__"):
                raise TypeError(f"{self.name} returned something to await: make it an async def")
        except ToolKilled:
            pass
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            self._end(None, error)
        else:
            self._end(value, None)

    async def _work_async(self) -> None:
        try:
            set_current(self.token.deadline)  # in a context of this task's own
            value = await self.function(**self.arguments)
        except CancelledError as error:
            if not self.stopped:
                self._end(None, error)
        except BaseException as error:
            self._end(None, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            self._end(value, None)

    def _leave(self, task: "Task[None]") -> None:
        if not task.cancelled():
            task.exception()  # else asyncio reports it as never retrieved
        elif not self.stopped:
            self._end(None, CancelledError("cancelled before it had begun"))
        self.slots.free(self)

    async def _stop_task(self) -> None:
        """Cancel the tool's task, and give it a moment to end."""
        self.stopped = True
        if self.task:
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=CLEAN_UP_S)

    def _end(self, value: Any, error: BaseException | None) -> None:
        report = count_reported(value if error is None else error, self.budget, self.state)
        if error is None:
            outcome = self.outcome_now(COMPLETED, value)
        else:
            gave_up = isinstance(error, DeadlineExceeded) and self.token.is_expired()
            status = TIMED_OUT if gave_up else FAILED
            outcome = self.outcome_now(status, None, error, in_words(error))
        if self._is_in_time(outcome):
            self.outcome = outcome
            self.settings.call_hook(self.on_end, outcome)
        else:
            self.settings.call_hook(self.settings.on_late, outcome)
        if report is not None:
            self.settings.call_hook(self.settings.on_usage, report)

    def _is_in_time(self, end: ToolOutcome) -> bool:
        """Write an end to the trace, and tell whether it came before the call was given up."""
        if end.status == TIMED_OUT and self.state.mark_trace_timed_out(self.trace_id):
            return True
        return self.state.complete_trace(self.trace_id, end.latency_ms, end.retryable)

    def outcome_now(
        self, status: str, value: Any = None, error: BaseException | None = None, reason: str = ""
    ) -> ToolOutcome:
        """Return an outcome of this call, as of now."""
        ms = (monotonic_ns() - self.since) // 1_000_000
        again = self.options.retryable and status in (FAILED, TIMED_OUT)
        part = status is COMPLETED and self.options.cooperative and self.token.is_expired()
        return ToolOutcome(status, self.name, self.trace_id, value, error, reason, ms, again, part)

    def give_up(self) -> bool:
        """Abandon the tool and return `True`; or return `False`: it has just ended in time."""
        if not self.state.mark_trace_timed_out(self.trace_id):
            entry = self.state.tool_trace.get(self.trace_id)
            if entry and entry.status == COMPLETED:
                return False
        self.given_up = True
        self.slots.abandon(self)
        if self.options.cooperative:  # the tool's callbacks may be as slow as the tool
            call_hook = self.settings.call_hook
            call_hook(THREADS.submit, partial(call_hook, self.token.cancel))
        else:
            self.token.cancel()
        return True

    def result(self) -> ToolOutcome:
        """Return the outcome of the call; once."""
        outcome, self.outcome = self.outcome, None  # its error's traceback leads to this call
        if outcome:
            return outcome
        reason = f"{self.name} did not end within {self.hard_s:.3f} s"
        if not self.given_up:
            reason = f"the turn ended before {self.name} did"
        return self.outcome_now(TIMED_OUT, reason=reason)

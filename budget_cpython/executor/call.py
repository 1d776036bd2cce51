"""One tool call of a turn: it runs, and one of its ends counts."""

import asyncio
from asyncio import CancelledError, Task
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from threading import Thread
from time import monotonic_ns
from typing import Any

from budget_core.agent.envelope import Envelope
from budget_core.agent.stop import in_words
from budget_core.agent.tool import cost_of, usage_of
from budget_core.errors import DeadlineExceeded
from budget_core.turn_state import COMPLETED as TRACE_COMPLETED
from budget_core.usage import read_usage
from budget_cpython.deadline import DeadlineToken, current_or_none, set_current
from budget_cpython.executor.hooks import Hooks
from budget_cpython.executor.options import Described, ToolOptions
from budget_cpython.executor.outcome import COMPLETED, FAILED, TIMED_OUT, ToolOutcome
from budget_cpython.executor.slots import Places
from budget_cpython.executor.threads import Job
from budget_cpython.turn import TurnBudget, TurnRuntimeState

CANCEL_S = 0.02
_numbers = count(1)


class Stopped(BaseException):
    """A tool was stopped for good before it came to an end."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What all calls of an executor share; see `BoundedToolExecutor`."""

    places: Places
    hooks: Hooks
    cap_s: float | None
    caps: Mapping[str, float | None]
    grace_s: float
    kill_grace_s: float

    def cap_of(self, name: str, options: ToolOptions) -> float | None:
        """Return the cap of a tool: the table's, its own, or the one for all."""
        return self.caps.get(name, self.cap_s if options.cap_s is None else options.cap_s)


class Call(Job):
    """A tool call, for the thread or task that runs it and for the one that waits.

    The latter waits for `signal` to be called, and tries to `give_up` when it does not want to wait
    any more; then there is a `result`. Who was first is decided by the state's trace.
    """

    traced = False
    stopped = False
    on_end: Callable[[ToolOutcome], object] | None = None
    task: Task[None] | None = None
    outcome: ToolOutcome | None = None

    def __init__(
        self,
        tool: Described,
        arguments: dict[str, Any],
        budget: TurnBudget,
        state: TurnRuntimeState,
        cap_s: float | None,
        trace_id: str | None,
        bounds: Bounds,
    ) -> None:
        super().__init__(bounds.places)
        self.name, self.function, self.options, _ = tool
        self.arguments = arguments
        self.budget = budget
        self.state = state
        self.hooks = bounds.hooks
        self.trace_id = f"{self.name}#{next(_numbers)}" if trace_id is None else trace_id
        if cap_s is None:
            cap_s = bounds.cap_of(self.name, self.options)
        hard_s = budget.per_tool_remaining_s(cap_s)
        around = current_or_none()
        if around is not None:
            hard_s = min(hard_s, around.remaining_seconds())
        if self.options.cooperative and hard_s < inf:
            cap_s = hard_s - min(bounds.grace_s, hard_s / 10)
        self.hard_s = hard_s
        self.token = DeadlineToken.from_budget(budget, cap_s)
        if self.options.process:
            self._move_to_process(bounds.kill_grace_s)
        elif self.options.cooperative:
            self.arguments = {**arguments, "token": self.token}
        self.since = monotonic_ns()

    def _move_to_process(self, kill_grace_s: float) -> None:
        from budget_cpython.executor.processes import run_in_process

        cooperative = self.options.cooperative
        job = (self.name, self.function, self.arguments, cooperative, self.token, kill_grace_s)
        self.function, self.arguments = partial(run_in_process, *job), {}

    def left_s(self) -> float:
        """Return the seconds until this call is to be given up."""
        return max(0.0, self.hard_s - (monotonic_ns() - self.since) / 1e9)

    def start(self) -> None:
        """Run the tool in a thread; where there can be none, the call has failed."""
        try:
            super().start()
        except RuntimeError as error:  # the system gives no more threads
            if isinstance(error.__context__, KeyboardInterrupt):  # or Ctrl-C came as one started
                raise error.__context__ from None
            self._end(None, error)
            self.call_off()
            self.signal()

    def work(self) -> None:
        """Run the tool to its end."""
        try:
            set_current(self.token.deadline)  # in a context of this call's own
            value = self.function(**self.arguments)
            if hasattr(value, "__await__"):
                raise TypeError(f"{self.name} returned something to await: make it an async def")
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything, the turn goes on
            self._end(None, error)
        else:
            self._end(value, None)

    def start_task(self) -> None:
        """Run an async tool in a task of the running loop."""
        self._begun.acquire(blocking=False)
        self.task = asyncio.get_running_loop().create_task(self._work_async())
        self.task.add_done_callback(self._leave)

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
        if task.cancelled():  # before it had begun
            if not self.stopped:
                self._end(None, CancelledError("cancelled before it had begun"))
        else:
            task.exception()  # asyncio is not to complain that nobody looked
        self.places.free(self)
        self.signal()

    async def stop_task(self, within_s: float) -> None:
        """Cancel the tool's task, and give it that long to end."""
        self.stopped = True
        if self.task:
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=within_s)

    def _end(self, value: Any, error: BaseException | None) -> None:
        report = usage_of(value if error is None else error)
        if report is not None:
            usage = read_usage(report)
            self.state.add_usage(usage)
            if isinstance(self.budget, Envelope):
                self.budget.charge_report(usage, cost_of(value))
        outcome = self.ended(COMPLETED, value) if error is None else self._failure(error)
        gave_up = outcome.status == TIMED_OUT and self.state.mark_trace_timed_out(self.trace_id)
        if gave_up or self.state.complete_trace(
            self.trace_id, outcome.latency_ms, outcome.retryable
        ):
            self.outcome = outcome
            if self.on_end:
                self.hooks.call(self.on_end, outcome)
        elif self.hooks.on_late:
            self.hooks.call(self.hooks.on_late, outcome)
        if report is not None and self.hooks.on_usage:
            self.hooks.call(self.hooks.on_usage, report)

    def _failure(self, error: BaseException) -> ToolOutcome:
        gave_up = isinstance(error, DeadlineExceeded) and self.token.is_expired()
        status = TIMED_OUT if gave_up else FAILED
        return self.ended(status, None, error, in_words(error), self.options.retryable)

    def ended(
        self,
        status: str,
        value: Any = None,
        error: BaseException | None = None,
        reason: str = "",
        retryable: bool = False,
    ) -> ToolOutcome:
        """Return an outcome of this call, as of now."""
        ms = (monotonic_ns() - self.since) // 1_000_000
        part = status is COMPLETED and self.options.cooperative and self.token.is_expired()
        return ToolOutcome(
            status, self.name, self.trace_id, value, error, reason, ms, retryable, part
        )

    def give_up(self) -> bool:
        """Leave the tool to itself and return `True`, or return `False`: it has ended in time.

        The outcome then is there, or about to be: `signal` will be called.
        """
        if not self.state.mark_trace_timed_out(self.trace_id):
            entry = self.state.tool_trace.get(self.trace_id)
            if entry and entry.status == TRACE_COMPLETED:
                return False
        self.given_up = True
        self.places.abandon(self)
        if self.options.cooperative:  # the tool's callbacks may be as slow as the tool
            teller = Thread(target=self.hooks.call, args=(self.token.cancel,), daemon=True)
            teller.start()
            teller.join(CANCEL_S)
        else:
            self.token.cancel()
        return True

    def abort(self) -> bool:
        """Leave everything behind, wherever this call stands; its caller does not go on.

        `False` where the tool has ended, as `give_up` returns it.
        """
        left = not self.traced or self.give_up()
        self.call_off()
        return left

    def result(self) -> ToolOutcome:
        """Return what came of the call, once it was signalled or given up; once."""
        outcome, self.outcome = self.outcome, None  # its error's traceback leads to this call
        if outcome:
            return outcome
        reason = f"{self.name} did not end within {self.hard_s:.3f} s"
        if not self.given_up:
            reason = f"the turn ended before {self.name} did"
        return self.ended(TIMED_OUT, reason=reason, retryable=self.options.retryable)

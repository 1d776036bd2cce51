"""One tool call of a turn: it runs, and one of its ends counts."""

from asyncio import CancelledError, Task, wait
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from budget_core.errors import DeadlineExceeded
from budget_core.turn_state import COMPLETED as TRACE_COMPLETED
from budget_cpython.deadline import DeadlineToken
from budget_cpython.executor.hooks import Hooks
from budget_cpython.executor.options import ToolOptions
from budget_cpython.executor.outcome import COMPLETED, FAILED, TIMED_OUT, ToolOutcome
from budget_cpython.executor.places import Places
from budget_cpython.executor.threads import Job
from budget_cpython.turn import TurnRuntimeState


class Stopped(BaseException):
    """A tool was stopped for good before it came to an end."""


class Call(Job):
    """A tool call, for the thread or task that runs it and for the one that waits.

    The latter waits for `signal` to be called, and asks `has_ended` when it does not want to wait
    any more; then there is a `result`. Who was first is decided by the state's trace.
    """

    task: Task[None] | None = None
    outcome: ToolOutcome | None = None

    def __init__(
        self,
        places: Places,
        hooks: Hooks,
        name: str,
        trace_id: str,
        options: ToolOptions,
        function: Callable[..., Any],
        arguments: dict[str, Any],
        token: DeadlineToken,
        hard_s: float,
        state: TurnRuntimeState,
    ) -> None:
        super().__init__(places)
        self.hooks = hooks
        self.name = name
        self.trace_id = trace_id
        self.options = options
        self.function = function
        self.arguments = arguments
        self.token = token
        self.hard_s = hard_s
        self.state = state
        self.since = monotonic_ns()

    def left_s(self) -> float:
        """Return the seconds until this call is given up."""
        return max(0.0, self.hard_s - (monotonic_ns() - self.since) / 1e9)

    def work(self) -> None:
        """Run the tool to its end."""
        try:
            with self.token.deadline.as_current():
                value = self.function(**self.arguments)
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything, the turn goes on
            self._end(None, error)
        else:
            self._end(value, None)

    async def run_async(self) -> None:
        """Run an async tool to its end."""
        try:
            with self.token.deadline.as_current():
                value = await self.function(**self.arguments)
        except CancelledError as error:
            if not self.given_up:
                self._end(None, error)
        except BaseException as error:
            self._end(None, error)
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            self._end(value, None)
        finally:
            self.places.free(self)
            self.signal()

    def fail_to_start(self, error: Exception) -> None:
        """Note that the tool could not be started."""
        self._end(None, error)
        self.signal()

    def _end(self, value: Any, error: BaseException | None) -> None:
        self.hooks.settle(self.state, value if error is None else error)
        outcome = self._outcome(value, error)
        gave_up = outcome.status == TIMED_OUT and self.state.mark_trace_timed_out(self.trace_id)
        traced = (self.trace_id, outcome.latency_ms, outcome.retryable)
        if gave_up or self.state.complete_trace(*traced):
            self.outcome = outcome
        else:
            self.hooks.too_late(outcome)

    def _outcome(self, value: Any, error: BaseException | None) -> ToolOutcome:
        if error is None:
            partial = self.options.cooperative and self.token.is_expired()
            return self.ended(COMPLETED, value, partial=partial)
        gave_up = isinstance(error, DeadlineExceeded) and self.token.is_expired()
        status = TIMED_OUT if gave_up else FAILED
        reason = f"{type(error).__name__}: {error}"
        return self.ended(status, None, error, reason, self.options.retryable)

    def ended(
        self,
        status: str,
        value: Any = None,
        error: BaseException | None = None,
        reason: str = "",
        retryable: bool = False,
        partial: bool = False,
    ) -> ToolOutcome:
        """Return an outcome of this call, as of now."""
        ms = (monotonic_ns() - self.since) // 1_000_000
        return ToolOutcome(
            status, self.name, self.trace_id, value, error, reason, ms, retryable, partial
        )

    def has_ended(self) -> bool:
        """Tell whether the tool has ended in time; one that has not is given up.

        If it has, the outcome is there or about to be: `signal` will be called.
        """
        if not self.state.mark_trace_timed_out(self.trace_id):
            entry = self.state.tool_trace.get(self.trace_id)
            if entry and entry.status == TRACE_COMPLETED:
                return True
        self.given_up = True
        self.places.abandon(self)
        self.hooks.call(self.token.cancel)
        return False

    async def stop_task(self, within_s: float) -> None:
        """Cancel the tool's task, and give it that long to end."""
        if self.task:
            self.task.cancel()
            await wait({self.task}, timeout=within_s)

    def result(self) -> ToolOutcome:
        """Return what came of the call, once it was signalled or given up."""
        if self.outcome:
            return self.outcome
        reason = f"{self.name} did not end within {self.hard_s:.3f} s"
        if not self.given_up:
            reason = f"the turn ended before {self.name} did"
        return self.ended(TIMED_OUT, reason=reason, retryable=self.options.retryable)

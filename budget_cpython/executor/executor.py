"""Run tools within a turn's budget, and come back in time whatever they do."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from math import inf
from typing import Any

from budget_core.monotonic import in_ms
from budget_cpython.deadline import DeadlineToken
from budget_cpython.executor.call import Call
from budget_cpython.executor.hooks import Hooks
from budget_cpython.executor.options import describe
from budget_cpython.executor.outcome import DENIED, ToolOutcome
from budget_cpython.executor.places import NoPlaceError, Places, happens, wake
from budget_cpython.turn import TurnBudget, TurnRuntimeState

CLEAN_UP_S = 0.025
_ids = count(1)


class _DeniedError(Exception):
    """A tool call is not to be started, and another try would not be either."""


class BoundedToolExecutor:
    """Runs tools, each within its cap and its turn's time, and never waits for one that hangs.

    - `max_abandoned`: how many tools may outlive their time. A thread cannot be killed: one whose
      time is over is left behind until it ends by itself, and its result is dropped. Since any tool
      may hang, as many run at the same time at most; further calls wait for a place within their
      time, and are denied at once when all places are lost.
    - `cap_s`: seconds that a call may take, where `caps` (by the tool's name) and the tool's own
      `tool_options` say nothing; `None` leaves the turn's time as the only limit.
    - `grace_s`: a cooperative tool is told to stop that much before its time is over, and at most a
      tenth of it, so that its partial result is in time.
    - `kill_grace_s`: what a tool's process has from TERM to KILL.
    - `on_usage(usage)`: told the usage of each result that has any (an attribute or a key
      `usage`), also of late ones; a tracker's `record` fits. The state's counts have it already.
    - `on_late(outcome)`: told of what came too late and was dropped.

    One executor serves any number of turns and threads. Sources: seeds 000 and 002.
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
        self.cap_s = cap_s
        self.caps = {} if caps is None else caps
        self.grace_s = grace_s
        self.kill_grace_s = kill_grace_s
        for name, seconds in (("grace_s", grace_s), ("kill_grace_s", kill_grace_s)):
            in_ms(name, seconds)
        for name, cap in {"cap_s": cap_s, **self.caps}.items():
            if cap is not None:
                in_ms(name, cap)
        self._places = Places(max_abandoned)
        self._hooks = Hooks(on_usage, on_late)

    @property
    def abandoned(self) -> int:
        """Tools that outlived their time and still run."""
        return self._places.abandoned

    @property
    def running(self) -> int:
        """Tools that run within their time."""
        return self._places.running

    @property
    def hook_error(self) -> Exception | None:
        """The last error that a hook, or a callback of a token, raised."""
        return self._hooks.error

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
        call, is_async = self._prepare(tool, arguments, budget, state, cap_s, trace_id)
        if is_async:
            raise TypeError(f"{call.name} is async: await execute_async(...) instead")
        try:
            self._check(call, budget)
            waited = self._places.enter(call, call.left_s)
            self._claim(call, budget, waited)
        except (_DeniedError, NoPlaceError) as denied:
            return _denied(call, denied)
        try:
            _start_thread(call)
            in_time = call.is_done(call.left_s())
        except BaseException:  # Ctrl-C comes here
            call.has_ended()
            raise
        if not in_time and call.has_ended():
            call.is_done(inf)
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
    ) -> ToolOutcome:
        """Call a tool as `execute` does, and let the running loop go on meanwhile.

        An async tool runs as a task of the loop and is cancelled when its time is over; one that
        does not end even then is abandoned. Any other runs in a thread. If this call is cancelled,
        so is the tool.
        """
        call, is_async = self._prepare(tool, arguments, budget, state, cap_s, trace_id)
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._check(call, budget)
            waited = await self._places.enter_async(call, call.left_s)
            self._claim(call, budget, waited)
        except (_DeniedError, NoPlaceError) as denied:
            return _denied(call, denied)
        if is_async:
            call.signal = done.set
            call.task = loop.create_task(call.run_async(), name=f"tool {call.name}")
        else:
            call.signal = partial(wake, loop, done)
            _start_thread(call)
        try:
            if not await happens(done, call.left_s()):
                if call.has_ended():
                    await done.wait()
                else:
                    await call.stop_task(CLEAN_UP_S)
        except asyncio.CancelledError:
            if not call.has_ended():
                await call.stop_task(CLEAN_UP_S)
            raise
        return call.result()

    def _prepare(
        self,
        tool: Any,
        arguments: dict[str, Any],
        budget: TurnBudget,
        state: TurnRuntimeState,
        cap_s: float | None,
        trace_id: str | None,
    ) -> tuple[Call, bool]:
        """Return the call and whether its tool is async, or raise for what a caller got wrong."""
        if not isinstance(arguments, dict):
            raise TypeError(f"arguments must be a dict, not {arguments!r}")
        if not isinstance(budget, TurnBudget) or not isinstance(state, TurnRuntimeState):
            raise TypeError(
                "budget and state must be budget_cpython's, which threads may share, "
                f"not {budget!r} and {state!r}"
            )
        name, function, options, is_async = describe(tool)
        if trace_id is None:
            trace_id = f"{name}-{next(_ids)}"
        elif trace_id in state.tool_trace:
            raise ValueError(f"trace id {trace_id!r} is taken: each call needs its own")
        if cap_s is None:
            cap_s = self.caps.get(name, self.cap_s if options.cap_s is None else options.cap_s)
        hard_s = budget.per_tool_remaining_s(cap_s)
        arguments = dict(arguments)
        if options.cooperative:
            cap_s = hard_s - min(self.grace_s, hard_s / 10)
        token = DeadlineToken.from_budget(budget, cap_s)
        if options.process:
            from budget_cpython.executor.processes import run_in_process

            job = (name, function, arguments, options.cooperative, token, self.kill_grace_s)
            function, arguments = partial(run_in_process, *job), {}
        elif options.cooperative:
            arguments["token"] = token
        call = Call(
            self._places,
            self._hooks,
            name,
            trace_id,
            options,
            function,
            arguments,
            token,
            hard_s,
            state,
        )
        return call, is_async

    def _check(self, call: Call, budget: TurnBudget) -> None:
        """Raise `_DeniedError` where there is no use in waiting for a place."""
        if not call.state.is_accepting_writes():
            raise _DeniedError("the turn is over: it accepts no more writes")
        if call.name in call.state.blocked_tool_names:
            raise _DeniedError(f"{call.name} is blocked for the rest of the turn")
        if budget.is_expired():
            raise _DeniedError("the turn's time is over")
        if call.hard_s <= 0:
            raise _DeniedError(f"{call.name} may take 0 s")

    def _claim(self, call: Call, budget: TurnBudget, waited: bool) -> None:
        """Use one tool call of the turn, or give the place back and raise."""
        try:
            if waited:
                self._check(call, budget)
            if not budget.claim_tool_call():
                cap = budget.snapshot()["tool_calls_max"]
                raise _DeniedError(f"all {cap} tool calls of the turn are used")
            if not call.state.set_trace_running(call.trace_id, call.name):
                raise _DeniedError("the turn is over: it accepts no more writes")
        except BaseException:
            self._places.free(call)
            raise


def _start_thread(call: Call) -> None:
    try:
        call.start()
    except RuntimeError as error:  # the system gives no more threads
        call.fail_to_start(error)


def _denied(call: Call, denied: Exception) -> ToolOutcome:
    return call.ended(DENIED, reason=str(denied), retryable=isinstance(denied, NoPlaceError))

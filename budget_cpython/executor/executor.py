"""Run tools within a turn's budget, and come back in time whatever they do."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from budget_core.monotonic import in_ms
from budget_cpython.executor.call import Bounds, Call
from budget_cpython.executor.hooks import Hooks
from budget_cpython.executor.options import describe
from budget_cpython.executor.outcome import DENIED, ToolOutcome
from budget_cpython.executor.slots import NoPlaceError, Places, happens, wake
from budget_cpython.turn import TurnBudget, TurnRuntimeState

CLEAN_UP_S = 0.025
TURN_IS_OVER = "the turn is over: it accepts no more writes"


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

    The time is bounded by `Deadline.current()` as well. One executor serves any number of turns and
    threads, but a tool that calls tools needs another for those: it holds a place itself. Hooks
    should be quick, a call waits for them. Sources: seeds 000 and 002.
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
        named = {f"the cap of {name}": cap for name, cap in caps.items()}
        for name, cap in {"cap_s": cap_s, **named}.items():
            if cap is not None:
                in_ms(name, cap)
        hooks = Hooks(on_usage, on_late)
        self._bounds = Bounds(Places(max_abandoned), hooks, cap_s, caps, grace_s, kill_grace_s)

    @property
    def abandoned(self) -> int:
        """Tools that outlived their time and still run."""
        return self._bounds.places.abandoned

    @property
    def running(self) -> int:
        """Tools that run within their time."""
        return self._bounds.places.running

    @property
    def hook_error(self) -> BaseException | None:
        """The last error that a hook, or a callback of a token, raised."""
        return self._bounds.hooks.error

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
        call, is_async = self._call(tool, arguments, budget, state, cap_s, trace_id)
        if is_async:
            raise TypeError(f"{call.name} is async: await execute_async(...) instead")
        try:
            _check(call)
            waited = self._bounds.places.enter(call, call.left_s)
            _admit(call, waited)
            call.start()
            in_time = call.is_done(call.left_s() if waited else call.hard_s)
        except (_DeniedError, NoPlaceError) as denied:
            return _denied(call, denied)
        except BaseException:  # Ctrl-C comes here
            call.abort()
            raise
        if not in_time and not call.give_up():
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
        on_end: Callable[[ToolOutcome], object] | None = None,
    ) -> ToolOutcome:
        """Call a tool as `execute` does, and let the running loop go on meanwhile.

        An async tool runs as a task of the loop and is cancelled when its time is over; one that
        does not end even then is abandoned. Any other runs in a thread. If this call is cancelled,
        so is the tool. `on_end(outcome)` is called, by any thread, as soon as a tool that was
        started has ended or is given up: also where this call is cancelled and returns nothing.
        """
        call, is_async = self._call(tool, arguments, budget, state, cap_s, trace_id)
        done = asyncio.Event()
        call.signal = partial(wake, asyncio.get_running_loop(), done)
        call.on_end = on_end
        try:
            _check(call)
            _admit(call, await self._bounds.places.enter_async(call, call.left_s))
            if is_async:
                call.start_task()
            else:
                call.start()
            if not await happens(done, call.left_s()):
                if call.give_up():
                    if on_end:
                        call.hooks.call(on_end, call.result())
                    await call.stop_task(CLEAN_UP_S)
                else:
                    await done.wait()
        except (_DeniedError, NoPlaceError) as denied:
            return _denied(call, denied)
        except BaseException:
            try:  # what the tool returns as it is cancelled still counts
                await call.stop_task(CLEAN_UP_S)
            finally:
                left = call.abort()
            if not left:
                await happens(done, CLEAN_UP_S)
            raise
        return call.result()

    def _call(
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
        described = name, _, options, is_async = describe(tool)
        if is_async and options.process:
            raise TypeError(f"{name} is async: a process runs functions that are not")
        call = Call(described, arguments, budget, state, cap_s, trace_id, self._bounds)
        return call, is_async


def _check(call: Call) -> None:
    """Raise `_DeniedError` where there is no use in waiting for a place."""
    if not call.state.is_accepting_writes():
        raise _DeniedError(TURN_IS_OVER)
    if call.name in call.state.blocked_tool_names:
        raise _DeniedError(f"{call.name} is blocked for the rest of the turn")
    if call.budget.is_expired():
        raise _DeniedError("the turn's time is over")
    if call.hard_s <= 0:
        raise _DeniedError(f"{call.name} may take 0 s")


def _admit(call: Call, waited: bool) -> None:
    """Use one tool call of the turn, or give the place back and raise."""
    try:
        if waited:
            _check(call)
        claim = partial(call.budget.claim_tool_call, call.name)
        call.traced = call.state.set_trace_running(call.trace_id, call.name, claim)
        if not call.traced:
            _check(call)
            calls = call.budget.tool_calls
            if calls.cap is None or calls.used < calls.cap:
                raise _DeniedError(f"all calls that {call.name} may have are used")
            raise _DeniedError(f"all {calls.cap} tool calls of the turn are used")
    except BaseException:
        call.call_off()
        raise


def _denied(call: Call, denied: Exception) -> ToolOutcome:
    return call.ended(DENIED, reason=str(denied), retryable=isinstance(denied, NoPlaceError))

"""Call models, tools and hooks for as long as a run allows, then cancel them."""

import asyncio

from budget_core.durations import in_ms, inf
from budget_core.errors import BudgetError
from budget_core.provider import maybe_await
from budget_core.waking import from_any_thread, wait_for_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import EnvelopeView

_CLEAN_UP_S = 0.05


class CutShortError(BudgetError):
    """A call was cancelled: `reason` is the run's `StopReason`, `None` if its own time was over."""

    def __init__(self, reason: "Any") -> None:
        super().__init__("it was cancelled in flight")
        self.reason = reason


async def call_within(
    envelope: "EnvelopeView",
    function: "Callable[..., Any]",
    *arguments: "Any",
    cap_s: float | None = None,
    timed: bool = True,
) -> "Any":
    """Return a function's result, awaited if need be, while the run goes on.

    The call takes at most `cap_s` seconds. Where `timed` is false the caller keeps the
    time, and the call ends early only if the run is stopped.

    Raises what the function raises, and `CutShortError` if it was cancelled. A call that does not
    end soon after its cancellation is left behind. If the caller is cancelled, so is the call.
    """
    clock = envelope.clock
    cap_ms = None if cap_s is None else in_ms("cap_s", cap_s)
    end: Any = inf if cap_ms is None else clock.read() + cap_ms * clock.per_ms
    call = _Call(function, arguments)

    def over() -> "Any":
        if call.ended.is_set():
            return call
        if clock.read() >= end:
            return envelope
        return envelope.why_over() if timed else envelope.why_stopped()

    def left_s() -> float:
        left = envelope.remaining_s() if timed else inf
        return left if end == inf else min(left, (end - clock.read()) / (1000 * clock.per_ms))

    try:
        await asyncio.sleep(0)  # the call begins before it can be cancelled
        reason = await wait_until(over, envelope, left_s, call.wake)
    except asyncio.CancelledError:
        await call.cancel()
        raise
    if reason is not call:
        await call.cancel()
        if call.error is not None or not call.ended.is_set():
            raise CutShortError(None if reason is envelope else reason)
    if isinstance(call.error, asyncio.CancelledError):
        raise RuntimeError("it cancelled itself")
    if call.error is not None:
        raise call.error
    return call.value


class _Call:
    """A function that runs in a task of its own; `wake` is set when it has `ended`."""

    value: "Any" = None
    error: BaseException | None = None

    def __init__(self, function: "Callable[..., Any]", arguments: "tuple[Any, ...]") -> None:
        self.ended = asyncio.Event()
        self.wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(function, arguments))

    async def _run(self, function: "Callable[..., Any]", arguments: "tuple[Any, ...]") -> None:
        try:
            self.value = await maybe_await(function(*arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            self.error = error
        finally:
            self.ended.set()
            self.wake.set()

    async def cancel(self) -> None:
        self._task.cancel()
        try:
            await asyncio.wait_for(self.ended.wait(), _CLEAN_UP_S)
        except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
            pass


async def wait_until(
    ask: "Callable[[], Any]",
    envelope: "EnvelopeView",
    left_s: "Callable[[], float]",
    wake: "asyncio.Event | None" = None,
) -> "Any":
    """Return the first answer of `ask()` that is true.

    It is asked now, whenever a limit of the tree may have changed or `wake` is set, and after
    `left_s()` seconds.
    """
    event = asyncio.Event() if wake is None else wake
    watcher = from_any_thread(event.set)
    envelope.add_watcher(watcher)
    try:
        while True:
            event.clear()
            answer = ask()
            if answer:
                return answer
            await wait_for_event(event, left_s())
    finally:
        envelope.remove_watcher(watcher)

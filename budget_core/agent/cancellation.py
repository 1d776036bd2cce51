"""Await somebody else's code for as long as a run allows, and no longer."""

import asyncio

from budget_core.errors import BudgetError
from budget_core.monotonic import inf
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.agent.envelope import Envelope
    from budget_core.agent.stop import StopReason
    from budget_core.deadline import Deadline

_CLEAN_UP_S = 0.05


class CutShortError(BudgetError):
    """What was awaited had to be cancelled: its time was over, or the run was stopped."""


async def fly(
    function: "Callable[..., Any]",
    envelope: "Envelope",
    arguments: "Sequence[Any]" = (),
    named: "dict[str, Any] | None" = None,
    deadline: "Deadline | None" = None,
) -> "Any":
    """Return what a call comes to, awaited where it has to be, while the run goes on.

    `deadline` bounds it beside the envelope's. Raises what the call raises, and `CutShortError`
    where it was cancelled; one that resists is left behind soon after. If the caller is cancelled,
    so is the call.
    """
    flight = _Flight(envelope, deadline)
    flight.task = asyncio.create_task(flight.run(function, arguments, named or {}))
    guard = asyncio.create_task(flight.guard())
    try:
        await flight.done.wait()
    except asyncio.CancelledError:
        await flight.cancel()
        raise
    finally:
        guard.cancel()
    if flight.landed:
        return flight.value
    if flight.cut:
        raise CutShortError("it was cancelled in flight")
    if isinstance(flight.error, asyncio.CancelledError):
        raise RuntimeError("it cancelled itself")
    raise flight.error


class _Flight:
    landed = cut = False
    value: "Any" = None
    error: "Any" = None
    task: "Any" = None

    def __init__(self, envelope: "Envelope", deadline: "Deadline | None") -> None:
        self.envelope = envelope
        self.deadline = deadline
        self.done = asyncio.Event()

    async def run(
        self,
        function: "Callable[..., Any]",
        arguments: "Sequence[Any]",
        named: "dict[str, Any]",
    ) -> None:
        try:
            self.value = await settle(function(*arguments, **named))
            self.landed = True
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error
        finally:
            self.done.set()

    async def guard(self) -> None:
        """Cancel the call when its time is over, however that has changed meanwhile."""
        await until(self._is_over, self.envelope, self.deadline)
        self.cut = True
        await self.cancel()
        self.done.set()

    async def cancel(self) -> None:
        self.task.cancel()
        try:
            await asyncio.wait_for(self.done.wait(), _CLEAN_UP_S)
        except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
            pass

    def _is_over(self) -> bool:
        late = self.deadline is not None and self.deadline.is_expired()
        return late or is_over(self.envelope)


async def until(
    ask: "Callable[[], Any]", envelope: "Envelope", deadline: "Deadline | None" = None
) -> "Any":
    """Return the first answer of `ask()` that is true.

    It is asked now, whenever a limit may have changed, and when a time is over.
    """
    event = asyncio.Event()
    wake = _waker(event.set)
    envelope.add_watcher(wake)
    try:
        while True:
            event.clear()
            answer = ask()
            if answer:
                return answer
            left = envelope.remaining_s()
            if deadline is not None:
                left = min(left, deadline.remaining_seconds())
            # not wait_for: CPython 3.11's forgets a cancellation that comes with the event
            alarm = None if left == inf else asyncio.create_task(_ring(event, left))
            try:
                await event.wait()
            finally:
                if alarm is not None:
                    alarm.cancel()
    finally:
        envelope.remove_watcher(wake)


async def _ring(event: asyncio.Event, seconds: float) -> None:
    await asyncio.sleep(seconds)
    event.set()


def _waker(callback: "Callable[[], object]") -> "Callable[[], object]":
    """Return a function that has the running loop call `callback`, from any thread."""
    soon: Any = getattr(asyncio.get_event_loop(), "call_soon_threadsafe", None)

    def wake() -> None:
        try:
            soon(callback)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    return wake if soon else callback


def is_over(envelope: "Envelope") -> bool:
    """Tell whether the run or one above it was stopped, or its time is over."""
    return envelope.is_expired() or envelope.why_stopped() is not None


def why_over(envelope: "Envelope") -> "StopReason":
    """Return why it was stopped, or whose time is over."""
    return envelope.why_stopped() or envelope.out_of_time()

"""Help the executor's tests: turns, tools that hang until they are let go, waiting for things."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from budget_cpython.turn import TurnBudget, TurnRuntimeState
from tests_micro.support import stopped_clock

PATIENCE_S = 60.0


def turn(**limits: Any) -> tuple[TurnBudget, TurnRuntimeState]:
    """Return a turn's budget, roomy unless told otherwise, and its state."""
    given: dict[str, Any] = {"timeout_s": 600, "max_steps": None, "min_tool_s": 0, **limits}
    budget = TurnBudget.create(**given)
    return budget, TurnRuntimeState("session", budget)


def stopped_turn(**limits: Any) -> tuple[Any, TurnBudget, TurnRuntimeState]:
    """Return a clock of milliseconds that a test moves, and a turn by it."""
    fake, clock = stopped_clock()
    return fake, *turn(clock=clock, **limits)


def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds that nothing but time can bring about."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.001)


class Hung:
    """A tool that hangs until it is let go, whatever its token says."""

    def __init__(self, value: Any = "late") -> None:
        self.started = threading.Semaphore(0)
        self.gate = threading.Event()
        self.value = value

    def run(self, **arguments: Any) -> Any:
        self.started.release()
        assert self.gate.wait(PATIENCE_S * 4)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    name = "hung"


@contextmanager
def hung(value: Any = "late") -> Iterator[Hung]:
    """Give a tool that hangs, and let it go at the end of the block."""
    tool = Hung(value)
    try:
        yield tool
    finally:
        tool.gate.set()


def status(state: TurnRuntimeState, trace_id: str) -> str:
    """Return where a call stands."""
    return state.tool_trace[trace_id].status

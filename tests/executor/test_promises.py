"""What the executor promises, with ten times the margin; `make bench` has the figures."""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from budget_cpython.executor import BoundedToolExecutor, tool_options
from budget_cpython.turn import TurnBudget, TurnRuntimeState
from tests.executor.support import PATIENCE_S, eventually, hung, status, turn
from tests.paths import ROOT

HUNG = 1_000
CAP_S = 0.002
MARGIN_S = 0.5


@contextmanager
def watched() -> Iterator[list[float]]:
    """Give how late the machine itself is meanwhile, as a thread that only waits sees it."""
    late: list[float] = [0.0]
    over = threading.Event()

    def watch() -> None:
        before = time.monotonic()
        while not over.wait(CAP_S):
            now = time.monotonic()
            late.append(now - before - CAP_S)
            before = now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield late
    finally:
        over.set()
        thread.join()


def test_a_thousand_hung_tools_are_back_in_time() -> None:
    executor = BoundedToolExecutor()
    budget, state = turn()
    late = []
    with watched() as machine:
        for _ in range(HUNG):
            with hung() as tool:
                start = time.monotonic()
                outcome = executor.execute(tool, {}, budget, state, CAP_S)
                late.append(time.monotonic() - start - CAP_S)
                assert outcome.status == "timed_out", outcome.reason
            eventually(lambda: executor.abandoned < 8)
    eventually(lambda: executor.abandoned == 0)
    assert statistics.quantiles(late, n=100)[98] < MARGIN_S + max(machine)
    assert min(late) >= 0
    assert len(state.late_receipts) == HUNG


EXIT = """
import sys, threading, time
from budget_cpython.executor import BoundedToolExecutor, tool_timeout, ToolTimeoutError
from tests.executor.support import turn

def sleep():
    time.sleep(600)

def spin():
    while True:
        pass

tool = {"sleep": sleep, "spin": spin}[sys.argv[1]]
executor = BoundedToolExecutor()
for _ in range(int(sys.argv[2])):
    assert executor.execute(tool, {}, *turn(), cap_s=0.05).status == "timed_out"
try:
    tool_timeout(0.05)(tool)()
except ToolTimeoutError:
    print("at the end", flush=True)
"""


@pytest.mark.parametrize(("kind", "count"), [("sleep", 8), ("spin", 2)])
def test_the_interpreter_ends_while_tools_hang(kind: str, count: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", EXIT, kind, str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "at the end\n"
        _, complaints = process.communicate(timeout=2 * PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")


def test_the_timeline_of_a_tool_that_does_not_cooperate() -> None:
    """Seed 000, event by event: what takes 20 s there takes 20 ms here."""
    events: list[str] = []
    budget, _ = turn(timeout_s=60)
    begun, gate = threading.Event(), threading.Event()

    class State(TurnRuntimeState):
        def set_trace_running(self, trace_id: str, tool_name: str, claim: Any = None) -> bool:
            events.append("set_trace_running")
            return super().set_trace_running(trace_id, tool_name, claim)

        def mark_trace_timed_out(self, trace_id: str) -> bool:
            assert begun.wait(PATIENCE_S)
            told = "token expired" if tokens[0].is_expired() else "token not expired"
            marked = super().mark_trace_timed_out(trace_id)
            events.append(f"{told}, mark_trace_timed_out")
            return marked

        def complete_trace(
            self, trace_id: str, latency_ms: int = 0, retryable: bool = False
        ) -> bool:
            events.append("tool ends")
            written = super().complete_trace(trace_id, latency_ms, retryable)
            events.append(f"complete_trace {written}")
            return written

    tokens: list[Any] = []

    @tool_options(cooperative=True)
    def tool(token: Any) -> str:
        events.append("tool starts")
        tokens.append(token)
        begun.set()
        assert gate.wait(PATIENCE_S)
        return "late"

    state = State("session", budget)
    executor = BoundedToolExecutor(grace_s=0)
    outcome = executor.execute(tool, {}, budget, state, 0.02, trace_id="t")
    events.append(f"outcome {outcome.status}")
    if outcome.value is None:
        assert state.tool_results == []
    gate.set()
    eventually(lambda: executor.abandoned == 0)
    assert events == [
        "set_trace_running",
        "tool starts",
        "token expired, mark_trace_timed_out",
        "outcome timed_out",
        "tool ends",
        "complete_trace False",
    ]
    assert status(state, "t") == "timed_out_late"


def test_a_turns_loop_as_the_seed_writes_it() -> None:
    budget = TurnBudget.create(timeout_s=60, max_steps=6, max_reflections=0)
    state = TurnRuntimeState("sess_abc123", budget)
    executor = BoundedToolExecutor()
    steps = 0
    while budget.claim_step():
        if budget.is_expired():
            break
        steps += 1
        outcome = executor.execute(lambda: {"text": "x"}, {}, budget, state, 45)
        if outcome.status == "completed":
            state.tool_results.append(outcome.value)
    assert not budget.claim_reflection()
    state.close_writes()
    assert steps == len(state.tool_results) == 6
    assert budget.snapshot()["tool_calls_used"] == 6

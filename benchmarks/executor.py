"""What the tool executor costs beside `ThreadPoolExecutor`, and how late it is with hung tools."""

import asyncio
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.deadlines import best
from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT
from budget_cpython import BoundedToolExecutor, TurnBudget, TurnRuntimeState
from budget_cpython.executor import ToolOutcome

_ROUND_TRIP = (
    "The round trip's ratio had a target of 1.20, which is retired: a call of the executor also "
    "has a slot, a deadline, a context of its own and a line in the turn's trace, and a tool takes "
    "milliseconds."
)
MOST_LATE_MS = 50
MOST_EXIT_S = 1
CAP_S = 0.01
_EXIT = f"""
import time
from budget_cpython import BoundedToolExecutor, TurnBudget, TurnRuntimeState
executor, budget = BoundedToolExecutor(), TurnBudget.create(max_steps=8, min_tool_s=0)
state = TurnRuntimeState("benchmark", budget)
for _ in range(8):
    executor.execute(lambda: time.sleep(600), {{}}, budget, state, {CAP_S})
print(executor.abandoned, flush=True)
"""


def measure(quick: bool = False) -> list[Figure]:
    """Return the figures of a round trip, of hung tools, and of the interpreter's exit."""
    rounds, calls, hung = (10, 50, 50) if quick else (500, 50, 1_000)
    figures = _round_trip(rounds, calls)
    for name, tool, count, in_loop in (
        ("asleep", _sleep, hung, False),
        ("asleep, under a loop", _sleep, hung, True),
        ("computing", _spin, hung // 10, False),
    ):
        late = _Lateness(tool, count)
        times = asyncio.run(late.measure_async()) if in_loop else late.measure()
        p99 = statistics.quantiles(times, n=100)[98]
        figures.append(Figure(f"{count} hung tools, {name}: late, p99", p99, "ms", MOST_LATE_MS))
        figures.append(Figure(f"{count} hung tools, {name}: late, at most", max(times), "ms"))
    return [*figures, Figure("exit with 8 hung tools", _exit(), "s", MOST_EXIT_S)]


def _no_op() -> None:
    pass


def _round_trip(rounds: int, calls: int) -> list[Figure]:
    executor = BoundedToolExecutor()
    budget = TurnBudget.create(timeout_s=45, max_steps=None)
    state = TurnRuntimeState("benchmark", budget)
    with _one_processor(), ThreadPoolExecutor(1) as pool:

        def ours() -> None:
            executor.execute(_no_op, {}, budget, state)

        def capped() -> None:
            executor.execute(_no_op, {}, budget, state, 30)

        def theirs() -> None:
            pool.submit(_no_op).result(45)

        least = [float("inf")] * 3
        for _ in range(rounds):
            budget = TurnBudget.create(timeout_s=45, max_steps=None)
            state = TurnRuntimeState("benchmark", budget)  # a turn has some calls, no thousands
            taken = best((ours, capped, theirs), 1, calls)
            least = [min(pair) for pair in zip(least, taken, strict=True)]
    mine, with_cap, pooled = least
    return [
        Figure("executor round trip", mine / 1000, "µs"),
        Figure("ThreadPoolExecutor round trip", pooled / 1000, "µs"),
        ratio("executor round trip: ratio", mine, pooled, note=_ROUND_TRIP),
        ratio("executor round trip, with a cap of its own: ratio", with_cap, pooled),
    ]


@contextmanager
def _one_processor() -> Iterator[None]:
    """Keep this thread, and those it starts, on one processor: waking another costs thrice."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _sleep(gate: threading.Event) -> None:
    gate.wait()


def _spin(gate: threading.Event) -> None:
    while not gate.is_set():
        pass


class _Lateness:
    """Calls of a tool that hangs, and by how many milliseconds each was back late."""

    def __init__(self, tool: Callable[[threading.Event], None], count: int) -> None:
        self._tool = tool
        self._count = count
        self._executor = BoundedToolExecutor()
        self._budget = TurnBudget.create(timeout_s=None, max_steps=None, min_tool_s=0)
        self._state = TurnRuntimeState("benchmark", self._budget)

    def measure(self) -> list[float]:
        """Call it from this thread."""
        times = []
        for _ in range(self._count):
            gate, start = threading.Event(), time.perf_counter()
            outcome = self._executor.execute(
                self._tool, {"gate": gate}, self._budget, self._state, CAP_S
            )
            times.append(self._late(start, outcome, gate))
        return times

    async def measure_async(self) -> list[float]:
        """Call it under the running loop."""
        times = []
        for _ in range(self._count):
            gate, start = threading.Event(), time.perf_counter()
            outcome = await self._executor.execute_async(
                self._tool, {"gate": gate}, self._budget, self._state, CAP_S
            )
            times.append(self._late(start, outcome, gate))
        return times

    def _late(self, start: float, outcome: ToolOutcome, gate: threading.Event) -> float:
        late = time.perf_counter() - start - CAP_S
        gate.set()
        if outcome.status != "timed_out":
            raise RuntimeError(f"a hung tool came back: {outcome}")
        while self._executor.abandoned:
            time.sleep(0)
        return late * 1000


def _exit() -> float:
    with subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-c", _EXIT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        if not process.stdout or process.stdout.readline() != "8\n":
            raise RuntimeError("eight tools should hang")
        start = time.perf_counter()
        process.wait(60)
        return time.perf_counter() - start

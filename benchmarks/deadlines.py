"""What deadlines and claims cost on CPython, beside the bare call and the bare lock beneath them.

Both sides of a ratio are called by the same loop and take turns; the best round of each counts.
"""

import threading
import time
from collections.abc import Callable

from benchmarks.figures import Figure, ratio
from budget_cpython import Deadline, TurnBudget

MOST_CHECK = 2.0
MOST_CLAIM = 1.5


class _Bare:
    """A count under a lock, and nothing else."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n = 0

    def add(self) -> None:
        with self.lock:
            self.n += 1


def measure(quick: bool = False) -> list[Figure]:
    """Return nanoseconds a call, and the ratios."""
    rounds, calls = (3, 20_000) if quick else (15, 200_000)
    deadline = Deadline.from_now(3600)
    budget = TurnBudget.create(max_steps=None)
    capped = TurnBudget.create(max_steps=10**9)
    functions = (
        time.monotonic,
        deadline.check_or_raise,
        _Bare().add,
        budget.claim_step,
        capped.claim_step,
    )
    bare, check, added, claimed, within = best(functions, rounds, calls)
    return [
        Figure("time.monotonic(), bare", bare, "ns"),
        Figure("Deadline.check_or_raise()", check, "ns"),
        ratio("Deadline.check_or_raise(): ratio", check, bare, MOST_CHECK),
        Figure("with lock: n += 1", added, "ns"),
        Figure("claim_step()", within, "ns"),
        ratio("claim_step(): ratio", within, added, MOST_CLAIM),
        ratio("claim_step() without a cap: ratio", claimed, added, MOST_CLAIM),
    ]


def best(functions: tuple[Callable[[], object], ...], rounds: int, calls: int) -> list[float]:
    """Return the nanoseconds that a call of each takes in its best round, the loop's included."""
    least = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            least[index] = min(least[index], _time(function, calls))
    return least


def _time(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return (time.perf_counter_ns() - start) / calls

"""How long a program waits for its imports, on CPython.

Fresh interpreters take turns: a bare one, and one each that imports the trackers, wrapper, policy,
configurations and stores from exoclaw-turn-budget and from us. Medians count, less that of the bare
interpreter.
"""

import os
import subprocess
import sys
import time
from statistics import median

from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT

MOST = 0.33
_NAMES = (
    "BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker, Enforcement, FileBudgetStore, "
    "InMemoryBudgetStore, TurnBudgetConfig, TurnBudgetPolicy, TurnBudgetTracker"
)
_PROGRAMS = (
    "pass",
    f"from budget_cpython import {_NAMES}",
    f"from exoclaw_turn_budget import {_NAMES}",
    "from budget_cpython import *",
)


def measure(quick: bool = False) -> list[Figure]:
    """Return both import times in milliseconds, and their ratio."""
    rounds = 3 if quick else 25
    times: list[list[float]] = [[] for _ in _PROGRAMS]
    for number in range(rounds + 1):
        for program, taken in zip(_PROGRAMS, times, strict=True):
            seconds = _time(program)
            if number:  # the first round writes the bytecode caches
                taken.append(seconds * 1000)
    bare, ours, theirs, everything = map(median, times)
    return [
        Figure("import: ours", ours - bare, "ms"),
        Figure("import: exoclaw-turn-budget", theirs - bare, "ms"),
        ratio("import: ratio", ours - bare, theirs - bare, MOST),
        Figure("import: ours, chat client and operative too", everything - bare, "ms"),
    ]


def _time(program: str) -> float:
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], env=settings, check=True)  # noqa: S603 - ours
    return time.perf_counter() - start

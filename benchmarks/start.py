"""What a short command costs: the processor time and the memory of its start.

A bare Python, `microbudget run -- true` and `microbudget status` on a small file start in turns,
and medians count. Ratios are of processor time, user and system, so other programs matter little.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger

RUN = "processor time: microbudget run -- true, to a bare Python"
MOST_RUN = 12
MOST_RUN_MB = 32
MOST_STATUS_MS = 250
_ACCOUNTS = 8
# Starts programs in turns, from a small process: a child has at least its parent's peak memory.
_STARTS = """
import json, os, sys, time
rounds, *programs = json.loads(sys.argv[1])
found = [[] for _ in programs]
null = os.open(os.devnull, os.O_RDWR)
places = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in range(3)]
for number in range(rounds + 1):
    for program, rows in zip(programs, found):
        begun = time.perf_counter()
        pid = os.posix_spawn(program[0], program, os.environ, file_actions=places)
        _, status, used = os.wait4(pid, 0)
        assert status == 0, program
        took = time.perf_counter() - begun
        if number:  # the first round writes the bytecode caches
            rows.append((used.ru_utime + used.ru_stime, used.ru_maxrss, took))
print(json.dumps(found))
"""


def measure(quick: bool = False) -> list[Figure]:
    """Return the ratios of processor time to a bare start, with peak memory and a wall time."""
    with TemporaryDirectory() as folder:
        bare, run, windowed, status = _started(Path(folder), 5 if quick else 25)
    unit = 1024 if sys.platform == "linux" else 1 << 20
    return [
        ratio(RUN, run[0], bare[0], MOST_RUN),
        ratio(f"{RUN}, a window in the default ledger", windowed[0], bare[0]),
        ratio("processor time: microbudget status, to a bare Python", status[0], bare[0]),
        Figure("peak memory: a bare Python", bare[1] / unit, "MB"),
        Figure("peak memory: microbudget run -- true", run[1] / unit, "MB", MOST_RUN_MB),
        Figure("a bare Python", bare[2] * 1000, "ms"),
        Figure("microbudget status", status[2] * 1000, "ms", MOST_STATUS_MS),
    ]


def _started(folder: Path, rounds: int) -> list[list[float]]:
    """Return for each program its medians: processor seconds, peak memory, seconds."""
    ledger = folder / "small.db"
    with SqliteLedger(ledger) as small:
        for number in range(_ACCOUNTS):
            small.set_limits(f"org/agent-{number}", [Limit("calls", 100, "day")])
    command = [sys.executable, "-m", "budget_cpython.cli"]
    programs = [
        [sys.executable, "-c", "pass"],
        [*command, "run", "--budget", "$1 + 10 min", "--", "true"],
        [*command, "run", "--budget", "$1/day", "--", "true"],
        [*command, "status", "--ledger", f"sqlite:{ledger}"],
    ]
    found = _run([rounds, *programs], _environment(folder))
    return [[median(values) for values in zip(*rows, strict=True)] for rows in found]


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment with caches of bytecode of its own, and a default ledger."""
    told = ("MICROBUDGET_", "PYTHON", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "AZURE_")
    found = {name: value for name, value in os.environ.items() if not name.startswith(told)}
    place = {"PYTHONPYCACHEPREFIX": str(folder / "cache"), "XDG_STATE_HOME": str(folder)}
    return {**found, "PYTHONPATH": str(ROOT), **place}


def _run(order: list[Any], environment: Mapping[str, str]) -> Any:
    done = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", _STARTS, json.dumps(order)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout)

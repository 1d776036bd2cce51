"""What each adapter adds to a call of its SDK, against the embedded endpoint on this machine.

Each SDK runs in its environment (`scripts/adapters.sh`), in its newest version. A bare call and one
with a budget take turns; the least time of each counts. The budget is in memory: one of calls
alone, and one of money too, whose prices genai-prices calculates.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.adapter_calls import CALLS, MANY
from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT

_NOTE = (
    "The ratio had a target of 1.05, which is retired: the endpoint here answers at once, so it "
    "compares the budget with the SDK's own work. A model takes seconds; what counts is the time "
    "in the rows `added`."
)
MOST = 1.2
_MODELS = ("gpt-4o-mini", "claude-haiku-4-5", "gemini-2.5-flash")


def measure(quick: bool = False) -> list[Figure]:
    """Return the ratio of a call within a budget to a bare one, by adapter and kind of limit."""
    figures = []
    endpoint = subprocess.Popen(  # apart: it must not share a lock with the client
        [sys.executable, "-m", "benchmarks.adapters"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with endpoint:
        assert endpoint.stdin is not None
        assert endpoint.stdout is not None
        url = endpoint.stdout.readline().strip()
        for name in CALLS:
            found = _measured(name, url, 3 if quick else 20)
            for kind, (bare, within) in found.items():
                head = f"adapter of {name}, a call, limits of {kind}"
                most = MOST if name == "openai" and kind in ("calls", MANY) else None
                figures.append(Figure(f"{head}: added", within - bare, "ns"))
                figures.append(ratio(f"{head}: ratio", within, bare, most, _NOTE))
        endpoint.stdin.close()
    return figures


def _measured(name: str, url: str, rounds: int) -> dict[str, list[float]]:
    python = _environment(f"{name}-newest")
    done = subprocess.run(  # noqa: S603 - our own program
        [python, "-m", "benchmarks.adapter_calls", name, url, str(rounds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _environment(name: str) -> str:
    script = ROOT / "scripts/adapters.sh"
    done = subprocess.run(  # noqa: S603 - our own script
        [script, sys.executable, name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"there is no environment {name}: {done.stderr[-500:]}")
    return str(Path(done.stdout.strip()))


def _serve() -> None:
    """Answer in each vendor's format until standard input ends."""
    from scripted_model import Reply, ScriptedEndpoint

    answer = Reply("They grow in the sun.")
    with ScriptedEndpoint(scripts=dict.fromkeys(_MODELS, answer)) as endpoint:
        print(endpoint.root_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()

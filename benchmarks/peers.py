"""What a thousand calls at once spend of a dollar, through ours and through each peer.

A call costs 1 to 5 cents, which its answer tells; the model is that of our own test of many calls.
On asyncio all calls are made side by side; in threads there are 50, each of which makes its share
side by side, or in turn with a client that blocks. A refused call is tried a few times more, as
calls under way may give back a part of what they hold. Each trial is a process of its own, as some
peers patch the clients of all. What is let through is what the model bills, whatever a library has
recorded.

The peers are those of the group "peers" in pyproject.toml, looked for in .local/peers:

    pip install --target .local/peers --group peers

`runcycles` needs a server of its own and LiteLLM's budgets its proxy: they are not run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from itertools import product
from pathlib import Path

from benchmarks import peer_budgets
from benchmarks.figures import Figure
from benchmarks.mpy import ROOT
from benchmarks.peer_model import Model
from tests.ledger.many_calls import BUDGET, CENT, WAYS

FOLDER = ROOT / ".local/peers"
BUDGETS: dict[str, tuple[Callable[..., peer_budgets.Trial], str]] = {
    "no budget": (peer_budgets.nothing, ""),
    "microbudget in memory": (peer_budgets.in_memory, ""),
    "microbudget in SQLite": (peer_budgets.in_sqlite, ""),
    "agentbudget": (peer_budgets.agentbudget, "agentbudget"),
    "agentguard47": (peer_budgets.agentguard, "agentguard47"),
    "agentguard47 with a store": (peer_budgets.agentguard_store, "agentguard47"),
    "limits": (peer_budgets.limits, "limits"),
    "pydantic-ai-harness": (peer_budgets.pydantic_ai_harness, "pydantic-ai-harness"),
    "pyrate-limiter": (peer_budgets.pyrate_limiter, "pyrate-limiter"),
    "shekel": (peer_budgets.shekel, "shekel"),
    "tokencap": (peer_budgets.tokencap, "tokencap"),
}
_USD = 100 * CENT
_AT_ONCE = 2
_TRIES = {"asyncio": 20, "threads": 5}


def measure(quick: bool = False, folder: Path = FOLDER) -> list[Figure]:
    """Return the USD that each budget lets through and those it records, in both ways."""
    calls = 100 if quick else 1_000
    titles = {name: _title(name, folder) for name in BUDGETS}
    trials = [trial for trial in product(BUDGETS, WAYS) if titles[trial[0]]]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(_apart, name, way, calls, folder) for name, way in trials]
    figures = []
    for (name, way), ended in zip(trials, running, strict=True):
        spent, recorded = ended.result()
        head = f"{calls:,} calls on $1, {way}: {titles[name]}"
        target = BUDGET / _USD if name.startswith("microbudget") else None
        figures.append(Figure(f"{head} let through", spent, "USD", target))
        if name != "no budget":
            figures.append(Figure(f"{head} recorded", recorded, "USD"))
    missing = [name for name in BUDGETS if not titles[name]]
    if missing:
        print(f"peers: left out, not installed: {', '.join(missing)}", file=sys.stderr)
    return figures


def _title(name: str, folder: Path) -> str:
    """Return the name with the version of its library, or nothing if that is not installed."""
    _, library = BUDGETS[name]
    if not library:
        return name
    found = next(iter(distributions(name=library, path=[*sys.path, str(folder)])), None)
    return name.replace(library, f"{library} {found.version}") if found else ""


def _apart(name: str, way: str, calls: int, folder: Path) -> tuple[float, float]:
    """Run a trial in a process and an empty folder of its own; return what it prints."""
    command = [sys.executable, "-m", "benchmarks.peers", name, way, str(calls), str(folder)]
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as empty:
        ended = subprocess.run(  # noqa: S603 - ours
            command, env=settings, cwd=empty, capture_output=True, text=True
        )
    if ended.returncode:
        raise RuntimeError(f"{name}, {way}: {ended.stderr.strip().splitlines()[-1]}")
    spent, recorded = json.loads(ended.stdout.splitlines()[-1])
    return spent, recorded


def _trial(name: str, way: str, calls: int) -> tuple[float, float]:
    """Return the USD that the model bills, and those that the library has recorded."""
    build, _ = BUDGETS[name]
    model = Model()
    trial = build(model, threads=way == "threads")
    WAYS[way](trial.call, calls, tries=_TRIES[way])
    return model.nano_usd / _USD, trial.recorded()


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run one trial; print it as JSON.")
    parser.add_argument("name", choices=BUDGETS)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("calls", type=int)
    parser.add_argument("folder", type=Path, help="where libraries are that are not installed")
    options = parser.parse_args()
    sys.path.append(str(options.folder))
    print(json.dumps(_trial(options.name, options.way, options.calls)))


if __name__ == "__main__":
    _main()

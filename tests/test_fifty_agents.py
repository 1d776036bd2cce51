"""The example of fifty agents, on which operators' commands are tried."""

import subprocess
import sys
from pathlib import Path

from budget_cpython import open_ledger
from tests.paths import ROOT

PROGRAM = ROOT / "examples/fifty_agents/fifty_agents.py"
UNTIL = 1_763_900_000


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": "."}
    )


def test_the_same_seed_makes_the_same_calls_and_the_runaway_is_refused(tmp_path: Path) -> None:
    said = []
    for name in ("one.db", "two.db"):
        done = run(tmp_path / name, "--days", 0.02, "--until", UNTIL)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr.rpartition("\r")[2].partition(":")[0])
    assert said[0] == said[1]
    ledger = open_ledger(f"sqlite:{tmp_path / 'one.db'}", clock=lambda: UNTIL)
    assert len(ledger.accounts()) == 55
    assert len(ledger.open_holds()) == 6
    models = {row.model for row in ledger.usage("acme/coding")} - {""}
    assert models == {"claude-sonnet-4-5", "gpt-5-mini"}
    refused = {event.account for event in ledger.events(kinds=["refused"])}
    assert "acme/coding/agent-07" in refused
    ledger.close()


def test_a_file_that_exists_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "mine.db"
    file.write_text("mine")
    done = run(file)
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert file.read_text() == "mine"

"""Play the scenarios in a process of their own, on CPython or on MicroPython."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import exoclaw
import pytest

from tests.paths import ROOT

PATIENCE = 120.0


class Played(dict[str, Any]):
    """What each scenario saw, by name; one that did not finish fails the test that asks for it."""

    def __init__(self, run: subprocess.CompletedProcess[str]) -> None:
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        super().__init__((line["scenario"], line["saw"]) for line in lines if "scenario" in line)
        self.requests: list[dict[str, Any]] = []
        self.exit_code = run.returncode
        self.complaints = run.stderr
        self.output = run.stdout[-2000:] + run.stderr[-4000:]

    def __missing__(self, name: str) -> Any:
        pytest.fail(f"the scenario {name} did not finish:\n{self.output}")


def play(runtime: str, folder: Path, *names: str, endpoint: str = "") -> Played:
    """Play the scenarios of those names, or all of them."""
    command, settings = _on_cpython() if runtime == "cpython" else _on_micropython(folder)
    settings |= {"SCENARIO_FOLDER": str(folder), "SCENARIO_ENDPOINT": endpoint}
    run = subprocess.run(
        [*command, "-m", "tests.agent.exoclaw.scenarios", *names],
        env={**os.environ, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )
    return Played(run)


def _on_cpython() -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-W", "error"], {"PYTHONPATH": str(ROOT)}


def _on_micropython(folder: Path) -> tuple[list[str], dict[str, str]]:
    micropython = os.environ.get("MICROPYTHON")
    if not micropython:
        pytest.fail("set MICROPYTHON to the path of MicroPython 1.24 or later: `make micropython`")
    package = Path(exoclaw.__file__).parent
    # A folder of its own: nothing else that is installed beside exoclaw is to be found.
    only = folder / "only-exoclaw"
    if not only.exists():
        only.mkdir()
        (only / "exoclaw").symlink_to(package, target_is_directory=True)
    paths = [ROOT, only, only / "exoclaw" / "_mp_lib", ".frozen"]
    return [micropython], {"MICROPYPATH": ":".join(map(str, paths))}

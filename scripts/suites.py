"""Run the tests on MicroPython and on CPython, and count them."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from platform import python_version
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
FROZEN_ONLY = {**os.environ, "MICROPYPATH": ".frozen"}  # nothing installed beside MicroPython
OUTCOMES = ("passed", "skipped", "failed")  # the worst last
PATIENCE_S = 10
PR_SET_PDEATHSIG = 1
HEAP = "heapsize=8m"  # for a folder at once, and flash in memory


@dataclass(frozen=True)
class Counts:
    """How many of a runtime's tests passed, failed and were skipped."""

    runtime: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    exit_code: int = 0

    def __str__(self) -> str:
        return f"{self.runtime}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def problem(self) -> str | None:
        """Return what is wrong, or `None` if tests were run and all is well."""
        if self.failed:
            return f"{self.failed} of the tests on {self.runtime}"
        if not self.passed:
            return f"no test was run on {self.runtime}"
        return f"exit code {self.exit_code} on {self.runtime}" if self.exit_code else None


@contextmanager
def child(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program that ends with this one; after a Ctrl-C give it time to tidy up."""
    options["preexec_fn"] = end_with_parent
    with subprocess.Popen(command, cwd=ROOT, **options) as process:  # noqa: S603 - those below
        try:
            yield process
        except KeyboardInterrupt:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            raise
        finally:
            process.terminate()


def end_with_parent() -> None:
    """Have Linux terminate this process when its parent ends, however that comes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def on_micropython(micropython: str, arguments: list[str], say: Callable[[str], object]) -> Counts:
    """Run tests_micro on MicroPython; a process that breaks off counts as one failed test.

    Without arguments each module has a process of its own: where all are loaded, collecting garbage
    takes four times as long as the tests. `say` gets what is printed, line by line.
    """
    tests = ROOT / "tests_micro"
    paths = sorted(path.relative_to(tests) for path in tests.rglob("test_*.py"))
    parts = [[".".join(path.with_suffix("").parts)] for path in paths]
    if arguments or not parts:
        parts = [arguments]
    return _sum([_in_one_process(micropython, part, say) for part in parts])


def _sum(counts: list[Counts]) -> Counts:
    """Return the counts of several processes as one; a module may skip all its tests."""
    codes = [one.exit_code for one in counts if one.passed or one.failed or not one.skipped]
    return Counts(
        min(one.runtime for one in counts),
        sum(one.passed for one in counts),
        sum(one.failed for one in counts),
        sum(one.skipped for one in counts),
        max(codes, key=abs, default=0),
    )


def _in_one_process(micropython: str, arguments: list[str], say: Callable[[str], object]) -> Counts:
    command = [micropython, "-X", HEAP, "tests_micro/runner.py", *arguments]
    last = ""
    text = {"encoding": "utf-8", "errors": "replace"}
    with tempfile.TemporaryFile() as complaints:
        streams = {"stdout": subprocess.PIPE, "stderr": complaints}
        with child(command, env=FROZEN_ONLY, **streams, **text) as process:
            for line in process.stdout or ():
                say(last)
                last = line
        complaints.seek(0)
        if process.returncode:
            say(complaints.read().decode(errors="replace"))
    try:
        said = json.loads(last)
        runtime = f"MicroPython {said['version']}"
        passed, failed, skipped = said["passed"], said["failed"], said["skipped"]
    except (ValueError, TypeError, KeyError):
        say(f"{last}MicroPython broke off with exit code {process.returncode}.\n")
        return Counts("MicroPython ?", failed=1)
    return Counts(runtime, passed, failed, skipped, process.returncode)


def on_cpython(arguments: list[str]) -> Counts:
    """Run tests with pytest; a run that breaks off counts as one failed test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        return with_pytest(sys.executable, f"CPython {python_version()}", report, arguments)


def with_pytest(
    python: str, runtime: str, report: Path, arguments: list[str], **options: Any
) -> Counts:
    """Run tests with the pytest of a Python, and have it write a report.

    `options` are those of `subprocess.Popen`.
    """
    command = [python, "-m", "pytest", "-q", f"--junit-xml={report}", *arguments]
    with child(command, **options) as process:
        code = process.wait()
    if not report.exists():
        print(f"pytest broke off with exit code {code}.")
        return Counts(runtime, failed=1)
    results = list(outcomes(report).values())
    passed, skipped, failed = (results.count(outcome) for outcome in range(len(OUTCOMES)))
    return Counts(runtime, passed, failed, skipped, code)


def outcomes(report: Path) -> dict[str, int]:
    """Return the worst outcome of each test, for one may fail again while it is torn down."""
    worst: dict[str, int] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        name = f"{case.get('classname')}.{case.get('name')}"
        tags = {part.tag for part in case}
        outcome = 2 if tags & {"failure", "error"} else int("skipped" in tags)
        worst[name] = max(outcome, worst.get(name, 0))
    return worst


def properties(report: Path, name: str) -> set[str]:
    """Return the values that the tests that passed gave to a property."""
    found: set[str] = set()
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest's own
        if not {part.tag for part in case} & {"failure", "error", "skipped"}:
            rows = case.iter("property")
            found |= {row.get("value", "") for row in rows if row.get("name") == name}
    return found

"""Run the checks and tests: style, types, the tests on MicroPython, the tests on CPython.

With --all, also the tests of the adapters, in the environments of their SDKs.

What fails does not keep the rest from being run. The last lines are the counts of the tests, the
very last one their total. The exit code is 1 if anything failed, or if a runtime ran no test.
"""

import argparse
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from adapter_matrix import VERSIONS
from adapters import on_adapters, with_tests, write_three_calls
from suites import ROOT, Counts, on_cpython, on_micropython

STEPS = ("lint", "types", "micropython", "cpython", "adapters")
STUBS = Path(".local/stubs")
EXAMPLES_ON = ("esp32_s3", "rp2_pico_2_w")  # what examples for boards are checked for
ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")
WORKERS = (os.cpu_count() or 1) + 1  # one more, because many tests wait
TYPES_ONLY = "_types"  # of the core: for type checkers, no program loads it
NOT_ON_BOARDS = ("demo.py", "manifest.py")  # run on the machine that firmware is built or tried on
EXAMPLES = """\
examples:
  scripts/check.py                              all but the slow tests
  scripts/check.py --all                        everything
  scripts/check.py lint --fix                   correct what ruff can correct
  scripts/check.py micropython -- ledger        one folder of tests_micro
  scripts/check.py cpython -- -x -k usage       arguments of pytest
  scripts/check.py adapters                     adapters, with the newest SDKs and the lowest
"""


@dataclass(frozen=True)
class Check:
    """A program whose exit code says whether all is well."""

    title: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> tuple[bool, str]:
        """Run it to its end; return whether all is well, and its output."""
        done = subprocess.run(  # noqa: S603 - the commands are those below
            [sys.executable, *self.command],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        return done.returncode == 0, done.stdout


def style_checks(fix: bool) -> list[Check]:
    """Return what checks the style, or corrects it."""
    ruff = ["-m", "ruff"]
    return [
        Check("ruff check", [*ruff, "check", "-q", *(["--fix"] if fix else [])]),
        Check("ruff format", [*ruff, "format", "-q", *([] if fix else ["--check"])]),
    ]


def type_checks(micropython: str) -> list[Check]:
    """Return what checks the types: by CPython, and by the firmware of each board."""
    examples = [path.parent for path in sorted(ROOT.glob("examples/*/main.py"))]
    boards = [path.parent for path in sorted(ROOT.glob("boards/*/main.py"))]
    checks = [Check("mypy, CPython", ["-m", "mypy"])]
    for example in examples:
        if (example / "boot.py").exists():  # of a board
            checks += [firmware_check(example, board) for board in EXAMPLES_ON]
        else:
            checks += [example_check(example), firmware_check(example, "unix")]
    checks += [firmware_check(board, board.name, "budget_core") for board in boards]
    return [*checks, core_check(micropython, boards)]


def core_check(micropython: str, boards: list[Path]) -> Check:
    """Return what asks MicroPython itself whether it has all that the core asks for."""
    options = ["--micropython", micropython, "--stubs", str(STUBS / "unix")]
    options += ["--types-only", TYPES_ONLY, "--also", str(STUBS / "unix/select.pyi")]
    for board in boards:  # their programs hand these to the core
        firmware = [STUBS / board.name / f"{name}.pyi" for name in ("network", "ntptime")]
        options += [str(file) for file in firmware if file.exists()]
    given = ("settings.py", "secret_example.py")
    options += [str(path) for name in given for path in sorted(ROOT.glob(f"boards/*/{name}"))]
    return Check("check_core", ["scripts/check_core.py", "budget_core", *options])


def programs(folder: Path, *others: str) -> list[str]:
    """Return the programs of a folder, less those that are named.

    A folder of `boards` has from `boards/shared` what it lacks.
    """
    found = {
        path.name: path
        for place in (folder.parent / "shared", folder)
        for path in sorted(place.glob("*.py"))
        if path.name not in others
    }
    return [str(path.relative_to(ROOT)) for path in found.values()]


def example_check(example: Path) -> Check:
    """Return what checks an example by the types of CPython."""
    options = [f"--cache-dir=.mypy_cache/{example.name}", "--follow-imports=silent"]
    command = ["-m", "mypy", *options, *programs(example)]
    title = f"mypy, CPython, {example.relative_to(ROOT)}"
    return Check(title, command, {"MYPYPATH": str(example)})


def firmware_check(folder: Path, firmware: str, *packages: str) -> Check:
    """Return what checks a folder's programs, and packages, by the stubs of a board's firmware.

    A module or a name that the firmware lacks is an error.
    """
    stubs = STUBS / firmware
    options = ["--config-file=mypy-micropython.ini", f"--custom-typeshed-dir={stubs}"]
    cache = f"--cache-dir=.mypy_cache/micropython-{folder.name}-{firmware}"
    command = ["-m", "mypy", *options, cache, *packages, *programs(folder, *NOT_ON_BOARDS)]
    title = f"mypy, MicroPython, {folder.relative_to(ROOT)}, {firmware}"
    return Check(title, command, {"MYPYPATH": f"{stubs}:{folder}:{folder.parent / 'shared'}"})


def run_checks(checks: list[Check], at_once: int) -> list[str]:
    """Run checks, print a line for each, and return the titles of those that failed."""
    failed: list[str] = []
    with ThreadPoolExecutor(at_once) as pool:
        for check, run in [(check, pool.submit(check.run)) for check in checks]:
            print(check.title, end=" ", flush=True)
            well, output = run.result()
            print("ok" if well else f"FAILED\n{output.rstrip()}", flush=True)
            if not well:
                failed.append(check.title)
    return failed


def find_micropython() -> str | None:
    """Return the path of $MICROPYTHON or another, or `None` after its reasons are printed.

    The tests find it in the environment.
    """
    done = subprocess.run([ROOT / "scripts/micropython.sh"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    if path := done.stdout.strip():
        os.environ["MICROPYTHON"] = path
    return path or None


def run(steps: list[str], fix: bool, everything: bool, arguments: list[str]) -> int:
    """Run the steps, say what came of them, and return the exit code."""
    problems: list[str] = []
    counts: list[Counts] = []
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # thousands of processes would compile anew
    micropython = None if steps == ["lint"] else find_micropython()
    if "lint" in steps:
        problems += run_checks(style_checks(fix), 1)
    if "types" in steps:
        problems += run_checks(type_checks(micropython or "micropython"), os.cpu_count() or 1)
    if "micropython" in steps and not micropython:
        counts.append(Counts("MicroPython ?", failed=1))
    counts += run_tests(steps, micropython, everything, arguments)
    if "adapters" in steps:
        counts += try_adapters()
    problems += [problem for problem in (count.problem() for count in counts) if problem]
    report(problems, counts)
    return 1 if problems else 0


def run_tests(
    steps: list[str], micropython: str | None, everything: bool, arguments: list[str]
) -> list[Counts]:
    """Run the tests of the steps side by side, and print them one after the other."""
    counts: list[Counts] = []
    said: list[str] = []
    os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str(WORKERS))
    with ThreadPoolExecutor(1) as pool:
        small = None
        if "micropython" in steps and micropython:
            small = pool.submit(on_micropython, micropython, arguments, said.append)
        if "cpython" in steps:
            print("tests, CPython", flush=True)
            chosen = [] if everything else ["-m", "not slow"]
            counts = [on_cpython([*chosen, *(arguments or ON_ALL_CORES)])]
        if small is not None:
            counts.insert(0, small.result())
            print("tests, MicroPython\n" + "".join(said), end="", flush=True)
    return counts


def try_adapters() -> list[Counts]:
    """Run the tests of the adapters in the environments of their SDKs, and print what failed."""
    found = []
    for tried in on_adapters(with_tests([]), VERSIONS, []):
        found.append(tried)
        if tried.counts.problem():
            print(f"tests, {tried.counts.runtime}\n{tried.output}", end="", flush=True)
    write_three_calls(found)
    return [tried.counts for tried in found]


def report(problems: list[str], counts: list[Counts]) -> None:
    """Print what failed, and the counts."""
    print()
    for problem in problems:
        print("FAILED:", problem)
    for count in counts:
        print(count)
    if counts:
        passed = sum(count.passed for count in counts)
        print(f"{passed} passed, {sum(count.failed for count in counts)} failed")


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", nargs="?", choices=STEPS, help="one step only; default: all")
    parser.add_argument("arguments", nargs="*", help="after `--`: for the tests' runner")
    parser.add_argument("--fix", action="store_true", help="lint: correct instead of complaining")
    parser.add_argument("--all", action="store_true", help="slow tests and all examples as well")
    options = parser.parse_args()
    usual = STEPS if options.all else [step for step in STEPS if step != "adapters"]
    steps = [options.step] if options.step else list(usual)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        return run(steps, options.fix, options.all, options.arguments)
    except KeyboardInterrupt:
        print("\nInterrupted: not everything was run.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

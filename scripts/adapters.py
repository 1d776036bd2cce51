"""Try each adapter against the real SDK, in the lowest and the newest version that it supports.

`scripts/adapters.sh` makes an environment for each, where the tests of the adapter are run; its
types are checked by those of the newest SDK. If both versions of an adapter passed, its row of the
matrix in docs/adapters.md is written. With the newest, and for frameworks without an adapter, the
scenarios of docs/three_calls.md are run, and their tables written. Options of pytest run a part of
the tests, and write nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import adapter_matrix as matrix
import three_calls
from suites import ROOT, Counts, properties, with_pytest

# Warnings are errors where they are about our code; those of SDKs about each other are not.
WARNINGS = "filterwarnings=default\nerror:::budget_cpython\nerror:::tests.adapters"
PAGE_TEST = "tests/adapters/test_page.py::test_the_snippets_of_an_adapter_run"


class Tried(NamedTuple):
    """What came of one environment: its tests, the features that they show, and what was said."""

    adapter: str
    version: str
    counts: Counts
    features: set[str]
    output: str
    three_calls: Set[str] = frozenset()  # reports of the scenarios, as JSON


def on_adapters(
    names: list[str], versions: tuple[str, ...], arguments: list[str]
) -> Iterator[Tried]:
    """Set up the environments one after the other, and run the tests of two at once."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = []
        for name in names:
            for version in versions if name not in three_calls.ALONE else ("",):
                python = _set_up(three_calls.ALONE.get(name, f"{name}-{version}"))
                runs.append(pool.submit(_try, name, version, python, arguments))
        for run in runs:
            yield run.result()


def with_tests(names: list[str]) -> list[str]:
    """Return the names that have tests, adapters first; all such names if none is given."""
    known = names or [*matrix.adapters(), *three_calls.ALONE]
    return [name for name in known if name in three_calls.ALONE or matrix.test_files(name)]


def write_three_calls(tried: list[Tried]) -> None:
    """Write the tables of docs/three_calls.md from the runs of which all tests passed."""
    passed = [one for one in tried if not one.counts.problem()]
    three_calls.write(report for one in passed for report in sorted(one.three_calls))


def _set_up(environment: str) -> str:
    if not environment:
        return sys.executable
    command = [str(ROOT / "scripts/adapters.sh"), sys.executable, environment]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    return done.stdout.strip()


def _try(adapter: str, version: str, python: str, arguments: list[str]) -> Tried:
    runtime = f"{adapter} {matrix.adapters()[adapter][version]}" if version else adapter
    if not python:
        return Tried(adapter, version, Counts(runtime, failed=1), set(), "no environment\n")
    with tempfile.TemporaryDirectory() as folder:
        report, said = Path(folder, "report.xml"), Path(folder, "said")
        files = [str(path) for path in _files(adapter, version)]
        files += [f"{PAGE_TEST}[{adapter}]"] if version else []
        options = ["--tb=short", "-p", "no:cacheprovider", "-o", WARNINGS, *files, *arguments]
        with said.open("w") as out:
            counts = with_pytest(python, runtime, report, options, stdout=out, stderr=out)
        features = properties(report, "feature") if report.exists() else set()
        calls = properties(report, "three_calls") if report.exists() else set()
        output = said.read_text(errors="replace")
    if version == "newest" and not arguments:
        complaints = complaints_about(adapter, python)
        counts = replace(counts, failed=counts.failed + bool(complaints))
        output += complaints
    return Tried(adapter, version, counts, features, output, calls)


def _files(adapter: str, version: str) -> list[Path]:
    own = matrix.test_files(adapter) if version else []
    return own + (three_calls.test_files(adapter) if version != "lowest" else [])


def complaints_about(adapter: str, python: str) -> str:
    """Return what mypy says of an adapter by the types of the real SDK; nothing if all is well.

    Beside the other tools the SDK is missing, and lines that need to ignore that do not here.
    """
    cache = f"--cache-dir=.mypy_cache/{adapter}"
    of_this = "--follow-imports=silent"  # what other modules need may be missing, too
    options = [f"--python-executable={python}", cache, of_this, "--no-warn-unused-ignores"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, matrix.modules(adapter))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    return done.stdout if done.returncode else ""


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="an adapter; default: all that have tests")
    for version in matrix.VERSIONS:
        text = f"the {version} version only"
        parser.add_argument(
            f"--{version}", dest="versions", action="append_const", const=version, help=text
        )
    options, arguments = parser.parse_known_args()
    known = [*matrix.adapters(), *three_calls.ALONE]
    unknown = [name for name in options.name if name not in known]
    if unknown:
        parser.error(f"no adapter {unknown[0]}; there are {', '.join(known)}")
    versions = tuple(options.versions or matrix.VERSIONS)
    tried = []
    for one in on_adapters(with_tests(options.name), versions, arguments):
        tried.append(one)
        print(one.output if one.counts.problem() else "", one.counts, sep="", flush=True)
    if not arguments:
        _write(tried)
        write_three_calls(tried)
    problems = [problem for one in tried if (problem := one.counts.problem())]
    print(*(f"FAILED: {problem}" for problem in problems), sep="\n")
    return 1 if problems or not tried else 0


def _write(tried: list[Tried]) -> None:
    """Write the rows of the adapters of which both versions passed."""
    passed: dict[str, dict[str, set[str]]] = {}
    for one in tried:
        if one.version and not one.counts.problem():
            passed.setdefault(one.adapter, {})[one.version] = one.features
    whole = {name: found for name, found in passed.items() if len(found) == len(matrix.VERSIONS)}
    matrix.PAGE.write_text(matrix.updated(matrix.PAGE.read_text(), whole))


if __name__ == "__main__":
    sys.exit(main())

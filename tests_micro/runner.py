"""Run the tests of this folder on MicroPython, which has no pytest.

    micropython -X heapsize=8m tests_micro/runner.py
    micropython tests_micro/runner.py ledger agent.test_stop test_usage.test_keeps_the_count

An argument names a folder, a module or a test. A test is a function without arguments, plain or
async, whose name begins with `test_`. The last line is JSON: the runtime, and how many tests passed
and failed. Exits with 1 if a test failed, if a module could not be imported, if an argument matches
no test, or if nothing was run.
"""

import asyncio
import gc
import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

if TYPE_CHECKING or not hasattr(sys, "print_exception"):
    from traceback import print_exception
else:
    print_exception = sys.print_exception

FOLDER = __file__.rpartition("/")[0]
PACKAGE = "tests_micro"


class QuietLogging:
    """Takes the place of `logging`, which MicroPython lacks: errors on purpose fill no screen."""

    def getLogger(self, name: str) -> "Self":  # noqa: N802 - as there
        """Return the logger."""
        return self

    def error(self, *line: object) -> None:
        """Log nothing."""

    debug = info = warning = error


class Results:
    """The names of the tests that were run, how many passed, and which failed or were skipped."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[str] = []

    def add(self, name: str, error: BaseException | None) -> None:
        """Count one test; show its error, or what it needs and this runtime lacks."""
        self.names.append(name)
        if error is None:
            self.passed += 1
            print(".", end="")
        elif hasattr(error, "lacks"):  # as of `tests_micro.support.SkippedError`
            self.skipped.append(f"{name}: {error}")
            print("s", end="")
        else:
            self.failed.append(name)
            print("F\n\nFAILED", name)
            print_exception(error)


def main(wanted: "list[str]") -> int:
    """Run the tests named, or all; return the exit code."""
    sys.path[0] = FOLDER.rpartition("/")[0]  # the root, where the packages are
    modules: Any = sys.modules
    modules.setdefault("logging", QuietLogging())
    heap: Any = gc
    heap.threshold(1 << 18)  # what tests leave behind lies close together, and large blocks fit
    results = Results()
    for name in module_names(FOLDER):
        if not wanted or any(within(name, one) or within(one, name) for one in wanted):
            print(name, end=" ")
            run_module(name, wanted, results)
            print()
            gc.collect()
    for name in wanted:
        if not any(within(ran, name) for ran in results.names):
            print("No test matches", name)
            results.failed.append(name)
    for test in results.skipped:
        print("SKIPPED", test)
    for test in results.failed:
        print("FAILED", test)
    if not (results.passed or results.failed):
        print("No test was run.")
    print(summary(results))
    return 0 if results.passed and not results.failed else 1


def module_names(folder: str) -> "list[str]":
    """Return the names of the test modules in a folder and in those below it, sorted."""
    names: list[str] = []
    for entry in os.listdir(folder):
        if entry.startswith("test_") and entry.endswith(".py"):
            names.append(entry[:-3])
        elif "." not in entry and entry != "__pycache__":
            names += [entry + "." + name for name in module_names(folder + "/" + entry)]
    return sorted(names)


def within(name: str, outer: str) -> bool:
    """Return whether the outer name is this name, or its module or folder."""
    return (name + ".").startswith(outer + ".")


def run_module(name: str, wanted: "list[str]", results: Results) -> None:
    """Run a module's tests; one that cannot be imported counts as one failed test."""
    try:
        module = __import__(PACKAGE + "." + name, None, None, (name,))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever stops a module, the others still run
        results.add(name, error)
        return
    for test in sorted(dir(module)):
        function = getattr(module, test)
        full_name = name + "." + test
        if test.startswith("test_") and (not wanted or any(within(full_name, w) for w in wanted)):
            results.add(full_name, run_test(function))


def run_test(function: "Callable[[], Any]") -> BaseException | None:
    """Run one test to its end and return what it raised."""
    try:
        pending = function()
        if hasattr(pending, "send"):
            asyncio.new_event_loop().close()  # MicroPython keeps one loop, and its tasks, for ever
            if not asyncio.run(finished(pending)):
                return AssertionError("it waits for what never comes")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - `sys.exit` in a test ends only that test
        return error
    return None


async def finished(pending: "Any") -> bool:
    """Await a test and return `True`; where nothing can wake it, MicroPython's loop just ends."""
    await pending
    return True


def summary(results: Results) -> str:
    """Return the line that `scripts/check.py` reads."""
    version = ".".join([str(part) for part in sys.implementation.version[:3]])
    counts = {"version": version, "passed": results.passed, "failed": len(results.failed)}
    return json.dumps(dict(counts, skipped=len(results.skipped)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`scripts/check.py` tells the truth by its exit code and its last lines."""

import functools
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import python_version

import pytest

from tests.paths import ROOT

CPYTHON = f"CPython {python_version()}"
PASSES = "def test_passes() -> None:\n    pass\n"
FAILS = "def test_fails() -> None:\n    raise ValueError('why it fails')\n"
COMPLAINS = "import sys\n\nprint('said before', file=sys.stderr)\n\n"
EXITS = "import sys\n\n\ndef test_exits() -> None:\n    sys.exit(0)\n\n\n" + PASSES
BROKEN = "import nothing_of_that_name\n"
ASYNC = """\
import asyncio


async def test_awaits() -> None:
    await asyncio.sleep(0)


async def test_fails_after_a_wait() -> None:
    await asyncio.sleep(0)
    raise ValueError
"""
LEFT_BEHIND = """\
import asyncio

RAN = []


async def later() -> None:
    RAN.append(1)


async def test_1_leaves_a_task_behind() -> None:
    asyncio.create_task(later())


async def test_2_is_not_run_into_by_it() -> None:
    before = len(RAN)
    await asyncio.sleep(0)
    assert len(RAN) == before
"""
ARGUMENT = "def test_folder(tmp_path) -> None:\n    pass\n"
METHOD = "class TestThing:\n    def test_one_runtime_only(self) -> None:\n        pass\n"
FINDS = """\
import os


def test_finds_it() -> None:
    assert os.environ["MICROPYTHON"].startswith("/")
"""
OUTCOMES = """\
import pytest


@pytest.fixture
def mess():
    yield
    raise OSError


def test_fails_twice(mess) -> None:
    raise ValueError


def test_is_skipped() -> None:
    pytest.skip()


def test_passes() -> None:
    pass
"""
BLOCKS = """\
import time


def test_blocks() -> None:
    file = open("started", "w")
    file.write("x")
    file.flush()
    while True:
        time.sleep(1)
"""
PATIENCE = 120


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def tree(tmp_path: Path, cache: Path) -> Path:
    """A checkout without tests."""
    of_the_packages = ("public_names.py", "site_reference.py", "drawing", "drawings.py")
    shutil.copytree(
        ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns(*of_the_packages)
    )
    (tmp_path / "tests_micro").mkdir()
    for name in ("__init__.py", "conftest.py", "runner.py", "support.py"):
        shutil.copy(ROOT / "tests_micro" / name, tmp_path / "tests_micro")
    for name in ("pyproject.toml", "mypy-micropython.ini"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("tests", "budget_core"):
        (tmp_path / name).mkdir()
    (tmp_path / "budget_core" / "__init__.py").write_text('"""A core."""\n')
    (tmp_path / ".local").symlink_to(ROOT / ".local")
    (tmp_path / ".mypy_cache").symlink_to(cache)
    return tmp_path


def check(tree: Path, *arguments: str, **variables: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, tree / "scripts/check.py", *arguments],
        cwd=tree,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.returncode, done.stdout.splitlines()


def environment() -> dict[str, str]:
    """Return variables with which pytest starts soon: in one process, with one plug-in."""
    soon = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "xdist.plugin",
        "PYTEST_XDIST_AUTO_NUM_WORKERS": "0",
    }
    return {**os.environ, **soon, "MICROPYTHON": micropython()}


@functools.cache
def micropython() -> str:
    finder = [ROOT / "scripts/micropython.sh"]
    found = subprocess.run(finder, stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("step", "runtime"), [("micropython", "MicroPython"), ("cpython", CPYTHON)]
)
def test_a_runtime_that_ran_no_test_fails(tree: Path, step: str, runtime: str) -> None:
    code, lines = check(tree, step)
    assert code == 1
    assert f"FAILED: no test was run on {runtime}" in "\n".join(lines)
    assert lines[-2].startswith(runtime)
    assert lines[-2].endswith(": 0 passed, 0 failed, 0 skipped")
    assert lines[-1] == "0 passed, 0 failed"


def test_everything_passes_and_the_last_lines_are_the_counts(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(PASSES)
    (tree / "tests/test_b.py").write_text(PASSES)
    code, lines = check(tree)
    assert code == 0, lines
    assert not [line for line in lines if "FAILED" in line]
    micropython, cpython, total = lines[-3:]
    assert micropython.startswith("MicroPython 1.")
    assert micropython.endswith(": 1 passed, 0 failed, 0 skipped")
    assert cpython == f"{CPYTHON}: 2 passed, 0 failed, 0 skipped"
    assert total == "3 passed, 0 failed"


@pytest.mark.parametrize("code", [METHOD, ARGUMENT])
def test_a_test_of_the_core_that_micropython_would_not_run_fails(tree: Path, code: str) -> None:
    (tree / "tests_micro/test_a.py").write_text(PASSES + "\n\n" + code)
    exit_code, lines = check(tree, "cpython")
    assert exit_code == 1
    assert "MicroPython runs plain functions without arguments only" in lines
    assert lines[-1] == "1 passed, 1 failed"


def test_a_check_that_fails_alone_fails(tree: Path) -> None:
    assert check(tree, "lint")[0] == 0
    (tree / "budget_core/wall_clock.py").write_text("import threading\n")
    code, lines = check(tree, "lint")
    assert code == 1
    assert lines[-1] == "FAILED: ruff check"


def test_lint_can_mend(tree: Path) -> None:
    (tree / "budget_core/wall_clock.py").write_text(
        '"""A clock."""\nimport time\nNOW  = time.time()\n'
    )
    assert check(tree, "lint")[0] == 1
    assert check(tree, "lint", "--fix")[0] == 0
    assert check(tree, "lint")[0] == 0


def test_what_fails_does_not_keep_the_rest_from_being_run(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(FAILS)
    (tree / "budget_core/wall_clock.py").write_text("import threading\nimport time\n")
    code, lines = check(tree)
    assert code == 1
    assert "budget_core/wall_clock.py:1: MicroPython has no module threading" in lines
    failures = [line.removeprefix("FAILED: ") for line in lines if line.startswith("FAILED: ")]
    assert failures[0] == "ruff check"
    assert "check_core" in failures
    assert f"1 of the tests on {CPYTHON}" in failures
    assert lines[-1] == "0 passed, 2 failed"


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        (FAILS, "0 passed, 1"),
        (EXITS, "1 passed, 1"),
        (BROKEN, "0 passed, 1"),
        (ASYNC, "1 passed, 1"),
    ],
    ids=["fails", "exits", "broken", "async"],
)
@pytest.mark.parametrize("step", ["micropython", "cpython"])
def test_a_failed_test_is_counted(tree: Path, step: str, code: str, counts: str) -> None:
    (tree / "tests_micro/test_a.py").write_text(code)
    exit_code, lines = check(tree, step)
    assert exit_code == 1
    assert lines[-2].endswith(f": {counts} failed, 0 skipped")
    assert lines[-1] == f"{counts} failed"


def test_a_failure_on_micropython_comes_with_its_traceback(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(COMPLAINS + FAILS)
    output = "\n".join(check(tree, "micropython")[1])
    assert "said before" in output
    assert "FAILED test_a.test_fails" in output
    assert "ValueError: why it fails" in output
    assert 'tests_micro/test_a.py", line 6' in output


def test_an_async_test_leaves_nothing_to_the_next(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(LEFT_BEHIND)
    assert check(tree, "micropython")[1][-1] == "2 passed, 0 failed"
    assert check(tree, "cpython")[1][-1] == "2 passed, 0 failed"


def test_each_test_has_one_outcome_on_cpython(tree: Path) -> None:
    (tree / "tests/test_a.py").write_text(OUTCOMES)
    lines = check(tree, "cpython")[1]
    assert lines[-2] == f"{CPYTHON}: 1 passed, 1 failed, 1 skipped"


def test_a_test_that_needs_what_the_runtime_lacks_is_skipped_and_says_so(tree: Path) -> None:
    lacks = "from tests_micro.support import module_or_skip\n\n\n"
    lacks += 'def test_needs_it() -> None:\n    module_or_skip("no_such_module", "nor_this")\n'
    (tree / "tests_micro/test_a.py").write_text(lacks)
    (tree / "tests_micro/test_b.py").write_text(PASSES)
    code, lines = check(tree, "micropython")
    assert code == 0
    assert "SKIPPED test_a.test_needs_it: no no_such_module or nor_this" in lines
    assert lines[-2].endswith(": 1 passed, 0 failed, 1 skipped")


def test_a_micropython_that_breaks_off_fails(tree: Path) -> None:
    (tree / "tests_micro/runner.py").write_text("print('no counts')\n")
    code, lines = check(tree, "micropython")
    assert code == 1
    assert lines[-1] == "0 passed, 1 failed"


def test_one_test_can_be_run_by_its_name(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(PASSES + "\n\n" + FAILS)
    assert check(tree, "micropython", "--", "test_a.test_passes")[0] == 0
    assert check(tree, "micropython", "--", "test_a")[1][-1] == "1 passed, 1 failed"
    assert check(tree, "cpython", "--", "-k", "passes")[1][-1] == "1 passed, 0 failed"


def test_a_folder_of_tests_can_be_run_by_its_name(tree: Path) -> None:
    (tree / "tests_micro/test_a.py").write_text(FAILS)
    for room in ("ledger", "ledgers"):
        (tree / "tests_micro" / room).mkdir()
        (tree / "tests_micro" / room / "__init__.py").touch()
        (tree / "tests_micro" / room / "test_a.py").write_text(PASSES)
    assert check(tree, "micropython", "--", "ledger")[1][-1] == "1 passed, 0 failed"
    assert check(tree, "micropython", "--", "ledgers.test_a")[1][-1] == "1 passed, 0 failed"
    one = "ledger.test_a.test_passes"
    assert check(tree, "micropython", "--", one)[1][-1] == "1 passed, 0 failed"
    assert check(tree, "micropython")[1][-1] == "2 passed, 1 failed"


@pytest.mark.parametrize("name", ["test_b", "ledger", "test_a.test_fails", "test_a.test_passes.x"])
def test_a_name_that_matches_no_test_fails(tree: Path, name: str) -> None:
    (tree / "tests_micro/test_a.py").write_text(PASSES)
    code, lines = check(tree, "micropython", "--", "test_a.test_passes", name)
    assert code == 1
    assert f"No test matches {name}" in lines
    assert lines[-1] == "1 passed, 1 failed"


def test_the_tests_get_the_micropython_that_was_found(tree: Path) -> None:
    (tree / "tests/test_a.py").write_text(FINDS)
    (tree / "micropython").symlink_to(micropython())
    code, lines = check(tree, "cpython", MICROPYTHON="./micropython")
    assert code == 0, lines


def test_an_interrupt_ends_it_with_a_clear_line(tree: Path) -> None:
    with blocked(tree, "cpython") as (process, _):
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors.splitlines()[-1] == "Interrupted: not everything was run."
    assert process.returncode == 130


@pytest.mark.parametrize("step", ["micropython", "cpython"])
def test_killed_it_leaves_no_runtime_behind(tree: Path, step: str) -> None:
    with blocked(tree, step) as (process, test):
        process.kill()
        assert select.select([test], [], [], PATIENCE)[0], "the test goes on"
        assert os.read(test, 1) == b""


@contextmanager
def blocked(tree: Path, step: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a step with a test that never ends, and a pipe that the test keeps open."""
    folder = "tests" if step == "cpython" else "tests_micro"
    (tree / folder / "test_a.py").write_text(BLOCKS)
    os.mkfifo(tree / "started")
    started = os.open(tree / "started", os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(
        [sys.executable, tree / "scripts/check.py", step],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert select.select([started], [], [], PATIENCE)[0], "the test never started"
            assert os.read(started, 1) == b"x"
            yield process, started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            os.close(started)

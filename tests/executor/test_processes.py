"""Tools that run in a process of their own, and are killed for real."""

import asyncio
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from budget_cpython.executor import BoundedToolExecutor, tool_options
from tests.executor import tools
from tests.executor.support import eventually, status, turn

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
ROOT = Path(__file__).resolve().parents[2]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_process_returns_its_value() -> None:
    budget, state = turn()
    outcome = BoundedToolExecutor().execute(tools.add, {"a": 1, "b": 2}, budget, state)
    assert (outcome.status, outcome.value) == ("completed", 3), outcome.reason


def test_a_process_leads_a_group_of_its_own() -> None:
    pid, group, parent = BoundedToolExecutor().execute(tools.who_am_i, {}, *turn()).value
    assert pid == group
    assert parent == os.getpid()
    assert group != os.getpgrp()


def test_a_process_has_the_deadline_of_its_call() -> None:
    left = BoundedToolExecutor().execute(tools.time_left, {}, *turn(), cap_s=50).value
    assert 0 < left <= 50


def test_a_megabyte_goes_there_and_back() -> None:
    back = b"x" * 1000
    outcome = BoundedToolExecutor().execute(tools.big, {"size": 1000, "back": back}, *turn())
    assert outcome.value == back * 1000


def test_what_is_raised_in_a_process_comes_back_with_its_traceback() -> None:
    outcome = BoundedToolExecutor().execute(tools.fail, {"text": "not here"}, *turn())
    assert (outcome.status, repr(outcome.error)) == ("failed", "LookupError('not here')")
    assert "in fail" in "".join(outcome.error.__notes__)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (tools.fail_stubbornly, {}, "StubbornError: cannot be unpacked"),
        (tools.return_a_lambda, {}, "lambda"),
        (tools.exit_at_once, {"code": 7}, "exit code 7"),
        (tool_options(process=True)(lambda: None), {}, "importable"),
        (tools.add, {"a": lambda: None, "b": 1}, "picklable"),
    ],
)
def test_what_cannot_come_back_is_a_failure_in_clear_words(
    tool: object, arguments: dict[str, object], words: str
) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcome = executor.execute(tool, arguments, budget, state, trace_id="t")
    assert outcome.status == "failed"
    assert words in outcome.reason
    assert status(state, "t") == "completed"
    assert executor.running == 0


def hang(tool: object, folder: Path, grace_s: float) -> tuple[BoundedToolExecutor, str]:
    """Call a tool that hangs until its time is over, and return what it had left by then."""
    budget, state = turn()
    executor = BoundedToolExecutor(kill_grace_s=grace_s)
    pid = folder / "pid"
    cap_s = 0.5
    while not pid.exists():  # it may have been killed before it had come that far
        outcome = executor.execute(tool, {"folder": str(folder)}, budget, state, cap_s)
        assert outcome.status == "timed_out"
        cap_s *= 2
    assert state.late_receipts == []
    return executor, pid.read_text()


def test_a_process_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    executor, left = hang(tools.hang_with_child, tmp_path, 30)
    eventually(lambda: executor.abandoned == 0)
    for pid in left.split():
        eventually(partial(is_gone, int(pid)))


def test_a_process_that_ignores_term_gets_kill(tmp_path: Path) -> None:
    executor, pid = hang(tools.ignore_term, tmp_path, 0.1)
    eventually(lambda: executor.abandoned == 0)
    assert is_gone(int(pid))


def test_a_process_hears_term_before_kill(tmp_path: Path) -> None:
    executor, _ = hang(tools.note_term, tmp_path, 60)
    eventually(lambda: executor.abandoned == 0)
    assert (tmp_path / "term").read_text() == "heard"


def test_a_place_is_free_only_when_the_process_is_gone(tmp_path: Path) -> None:
    executor, pid = hang(tools.ignore_term, tmp_path, 3600)
    assert executor.abandoned >= 1
    assert not is_gone(int(pid))
    os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: is_gone(int(pid)))


def test_a_cooperative_process_brings_its_part(tmp_path: Path) -> None:
    executor, cap_s = BoundedToolExecutor(), 1.0
    arguments = {"folder": str(tmp_path)}
    while (outcome := executor.execute(tools.stop_when_told, arguments, *turn(), cap_s=cap_s)) and (
        outcome.status == "timed_out"  # on a slow machine
    ):
        cap_s *= 2
    assert (outcome.status, outcome.value, outcome.partial) == ("completed", "part", True)


def test_a_process_runs_under_a_loop() -> None:
    async def main() -> None:
        outcome = await BoundedToolExecutor().execute_async(tools.add, {"a": 1, "b": 2}, *turn())
        assert outcome.value == 3

    asyncio.run(main())


PARENT = """
import sys, threading
from tests.executor import tools
from tests.executor.support import turn
from budget_cpython.executor import BoundedToolExecutor
if __name__ == "__main__":
    tool = getattr(tools, sys.argv[1])
    call = lambda: BoundedToolExecutor().execute(tool, {"folder": sys.argv[2]}, *turn())
    threading.Thread(target=call, daemon=True).start()
    sys.stdin.readline()
"""


@pytest.mark.parametrize("tool", ["hang_with_child", "ignore_term"])
@pytest.mark.parametrize("end", ["exit", "kill"])
def test_no_process_outlives_its_parent(tmp_path: Path, tool: str, end: str) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, program, tool, tmp_path],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as parent:
        eventually((tmp_path / "pid").exists)
        if end == "kill":
            parent.kill()
        else:
            parent.communicate(b"\n", timeout=60)
    for pid in (tmp_path / "pid").read_text().split():
        eventually(partial(is_gone, int(pid)))


def test_is_gone_can_tell() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_gone(process.pid)
        process.kill()
        eventually(lambda: is_gone(process.pid))

"""Tools that run in a process of their own, and are killed for real."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budget_cpython.context.deadline import Deadline, DeadlineToken
from budget_cpython.executor import BoundedToolExecutor, processes, tool_options
from budget_cpython.executor.processes import ToolProcessError
from tests.executor import tools
from tests.executor.support import PATIENCE_S, eventually, status, stopped_turn, turn
from tests.paths import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):  # the latter where it is reaped in between
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


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
    left = BoundedToolExecutor().execute(tools.time_left, {}, *turn(), cap_s=500).value
    assert 0 < left <= 500


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
    return executor, pid.read_text()


def test_a_process_that_is_killed_leaves_no_receipt() -> None:
    budget, state = turn()
    late: list[object] = []
    executor = BoundedToolExecutor(kill_grace_s=0, on_late=late.append)
    outcome = executor.execute(tools.hang, {}, budget, state, 0.05, trace_id="t")
    assert (outcome.status, outcome.value) == ("timed_out", None)
    eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out"
    assert late == state.late_receipts == []


def test_a_process_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    executor, left = hang(tools.hang_with_child, tmp_path, 30)
    eventually(lambda: executor.abandoned == 0)
    for pid in left.split():
        eventually(partial(is_gone, int(pid)))


@pytest.mark.parametrize("end", [False, True])
def test_what_a_process_started_ends_with_it_also_where_it_was_in_time(
    tmp_path: Path, end: bool
) -> None:
    arguments = {"folder": str(tmp_path), "end": end}
    outcome = BoundedToolExecutor().execute(tools.leave_children, arguments, *turn(), cap_s=500)
    child = int((tmp_path / "pid").read_text())
    try:
        assert outcome.status == ("failed" if end else "completed"), outcome.reason
        eventually(lambda: is_gone(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


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


def test_a_cooperative_process_brings_its_part_however_slow_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, budget, state = stopped_turn()
    real = Connection.recv_bytes

    def recv_bytes(self: Any, *given: Any) -> bytes:
        said = real(self, *given)
        if said == b"ready":
            clock.advance(570_000)  # so long did its start take
        return said

    monkeypatch.setattr(Connection, "recv_bytes", recv_bytes)
    executor = BoundedToolExecutor(grace_s=60)
    arguments = {"folder": str(tmp_path)}
    outcome = executor.execute(tools.stop_when_told, arguments, budget, state, 600)
    assert (outcome.status, outcome.value, outcome.partial) == ("completed", "part", True)


def test_a_token_of_the_models_is_replaced_in_a_process_as_well() -> None:
    outcome = BoundedToolExecutor().execute(tools.kind_of_token, {"token": "forged"}, *turn())
    assert outcome.value == "DeadlineToken", outcome.reason


def test_a_process_that_shuts_its_pipe_has_failed(tmp_path: Path) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor(kill_grace_s=0.05)
    arguments = {"folder": str(tmp_path)}
    outcome = executor.execute(tools.shut_the_pipe, arguments, budget, state, 60, trace_id="t")
    assert (outcome.status, type(outcome.error)) == ("failed", ToolProcessError), outcome.reason
    assert "no result" in outcome.reason
    assert status(state, "t") == "completed"
    assert executor.running == executor.abandoned == 0
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_thread_that_lingers_in_a_process_costs_no_answer() -> None:
    executor = BoundedToolExecutor(kill_grace_s=3600)
    outcome = executor.execute(tools.linger, {}, *turn(), cap_s=500)
    assert (outcome.status, outcome.value) == ("completed", "answer"), outcome.reason


def test_a_process_that_has_answered_may_come_to_its_end(tmp_path: Path) -> None:
    executor = BoundedToolExecutor(kill_grace_s=PATIENCE_S)
    outcome = executor.execute(tools.write_late, {"folder": str(tmp_path)}, *turn())
    assert outcome.value == "answer"
    assert (tmp_path / "pid").read_text() == "flushed"


def test_a_daemon_that_a_process_left_does_not_keep_the_place(tmp_path: Path) -> None:
    executor, pid = hang(tools.hang_with_daemon, tmp_path, 0.05)
    try:
        eventually(lambda: executor.abandoned == 0)
        assert not is_gone(int(pid))
    finally:
        os.kill(int(pid), signal.SIGKILL)


def test_what_is_told_to_stop_when_it_has_ended_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = DeadlineToken(Deadline.never())
    processes.run_in_process("who", tools.who_am_i, {}, False, token, 60)
    begun: list[object] = []
    killer = SimpleNamespace(Thread=lambda **given: begun.append(given))
    monkeypatch.setattr(processes, "threading", killer)
    token.cancel()
    assert begun == []


def test_a_process_that_has_no_group_yet_is_killed_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        processes._send(process.pid, signal.SIGKILL)
        eventually(lambda: is_gone(process.pid))


async def test_a_process_runs_under_a_loop() -> None:
    outcome = await BoundedToolExecutor().execute_async(tools.add, {"a": 1, "b": 2}, *turn())
    assert outcome.value == 3


def program(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a program that can import what the tests can."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )


PARENT = """
import sys, threading
from tests.executor import tools
from tests.executor.support import eventually, turn
from budget_cpython.executor import BoundedToolExecutor, processes

begun = []
class Child(processes._Child):
    def __init__(self, *given):
        super().__init__(*given)
        begun.append(self)

processes._Child = Child
executor = BoundedToolExecutor(kill_grace_s=600)
def call(folder, cap_s):
    executor.execute(getattr(tools, sys.argv[1]), {"folder": folder}, *turn(), cap_s=cap_s)

for folder, cap_s in zip(sys.argv[2:], (600, 600, 0.01)):
    threading.Thread(target=call, args=(folder, cap_s), daemon=True).start()
eventually(lambda: len(begun) == 3)  # one that is only half begun would complain of the end
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("tool", "end"),
    [
        pytest.param("hang_with_child", "exit", marks=pytest.mark.slow),
        ("hang_with_child", "kill"),
        pytest.param("ignore_term", "exit", marks=pytest.mark.slow),
        pytest.param("ignore_term", "kill", marks=pytest.mark.slow),
        pytest.param("stop_itself", "exit", marks=pytest.mark.slow),
    ],
)
def test_no_process_outlives_its_parent(tmp_path: Path, tool: str, end: str) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    pids = [folder / "pid" for folder in folders[:2]]  # the third is killed as it starts
    with program(PARENT, tool, *folders) as parent:
        eventually(lambda: all(pid.exists() for pid in pids))
        if end == "kill":
            parent.kill()
        said, complaints = parent.communicate("\n", timeout=2 * PATIENCE_S)
    if end == "exit":
        assert (parent.returncode, said, complaints) == (0, "", "")
    for pid in " ".join(pid.read_text() for pid in pids).split():
        eventually(partial(is_gone, int(pid)))


FORK = """
import os, sys, threading
from pathlib import Path
from tests.executor import tools
from tests.executor.support import eventually, turn
from budget_cpython.executor import BoundedToolExecutor

folder = Path(sys.argv[1])
executor = BoundedToolExecutor(max_abandoned=1)
outcomes = []
thread = threading.Thread(
    target=lambda: outcomes.append(
        executor.execute(tools.wait_for_go, {"folder": str(folder)}, *turn())
    )
)
thread.start()
eventually((folder / "pid").exists)
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
(folder / "go").write_text("")
thread.join()
print(outcomes[0].status, outcomes[0].value, outcomes[0].reason)
"""


def test_a_forked_child_that_exits_kills_no_process_of_its_parent(tmp_path: Path) -> None:
    with program(FORK, tmp_path) as parent:
        said, complaints = parent.communicate(timeout=2 * PATIENCE_S)
    assert (said, complaints) == ("completed went \n", "")


FORKED = """
import os, sys, threading
from tests.executor.support import eventually, hung, turn
from budget_cpython.executor import BoundedToolExecutor, with_timeout

executor = BoundedToolExecutor(max_abandoned=2)
def call(tool, cap_s=500):
    return executor.execute(tool, {}, *turn(), cap_s=cap_s)

with hung() as tool:
    call(tool, 0.01)
    threading.Thread(target=call, args=(tool,)).start()
    eventually(lambda: executor.running == 1)
    limited = with_timeout(lambda: 2, 500)
    assert limited() == 2  # its thread is idle now
    child = os.fork()
    if child == 0:
        before = executor.running, executor.abandoned
        print(*before, call(lambda: 1).value, limited(), executor.running, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(executor.running, executor.abandoned)
"""


def test_a_forked_child_begins_with_free_slots_and_threads_of_its_own() -> None:
    with program(FORKED) as parent:
        said, complaints = parent.communicate(timeout=2 * PATIENCE_S)
    assert (said, complaints) == ("0 0 1 2 0\n1 1\n", "")


IGNORED = """
import signal, sys
from tests.executor import tools
from tests.executor.support import turn
from budget_cpython.executor import BoundedToolExecutor

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
executor = BoundedToolExecutor(kill_grace_s=600)
arguments = {"folder": sys.argv[1], "end": False}
outcome = executor.execute(tools.leave_children, arguments, *turn(), cap_s=500)
print(outcome.status, outcome.value, outcome.reason)
"""


def test_a_program_that_ignores_its_children_has_their_results(tmp_path: Path) -> None:
    with program(IGNORED, tmp_path) as parent:
        said, complaints = parent.communicate(timeout=2 * PATIENCE_S)
    assert (said, complaints) == ("completed answer \n", "")
    eventually(partial(is_gone, int((tmp_path / "pid").read_text())))


def test_is_gone_can_tell() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_gone(process.pid)
        process.kill()
        eventually(lambda: is_gone(process.pid))

"""The process that a run starts: its streams, signals, exit code, deadline, and what is left."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.run.support import (
    IN_SHELL,
    PATIENCE,
    PYTHON,
    RUN,
    Started,
    environment,
    is_alive,
    report_of,
    run,
)

LONG = "10 min"
SPAWN = "sleep 600 & echo $!; "  # a child of the command
DETACH = """
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    sys.exit()
print(os.getpid(), flush=True)
time.sleep(600)
"""  # its parent ends at once, and it has a session of its own


@contextmanager
def ignored(number: int) -> Iterator[None]:
    """Start processes that ignore a signal."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def shell(script: str) -> tuple[str, str, str, str]:
    return "--", "sh", "-c", script


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_commands(script: str, code: int) -> None:
    assert run("--budget", LONG, *shell(script)).code == code


def test_the_standard_streams_are_the_commands() -> None:
    done = run("--budget", LONG, "--quiet", *shell("cat; echo said >&2"), stdin="asked\n")
    assert (done.out, done.err) == ("asked\n", "said\n")


def test_the_command_does_not_learn_where_the_ledger_is(tmp_path: Path) -> None:
    more = {"MICROBUDGET_ENGINE": f"sqlite:{tmp_path / 'budget.db'}", "MY_ENGINE": "mine"}
    done = run("--budget", "$5/day", "--account", "me", "--quiet", "--", "env", more=more)
    assert done.code == 0
    assert "MY_ENGINE=mine" in done.out
    assert "MICROBUDGET_" not in done.out


def test_the_commands_own_options_are_not_ours() -> None:
    done = run("--budget", LONG, "--quiet", "echo", "--budget", "x", "--", "--help")
    assert done.out == "--budget x -- --help\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_once_and_its_code_is_128_more(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    count = f"trap 'echo got; trap - {name}; kill -{name} $$' {name}; echo ready; "
    with Started("--budget", LONG, *shell(count + "while :; do sleep 0.1; done")) as started:
        assert started.line() == "ready"
        started.process.send_signal(number)
        done = started.end()
    assert (done.code, done.out) == (128 + number, "got\n")


def test_a_command_that_handles_a_signal_has_its_own_exit_code() -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with Started("--budget", LONG, *shell(script)) as started:
        started.line()
        started.process.terminate()
        assert started.end().code == 9


def test_when_the_run_is_terminated_no_process_is_left() -> None:
    script = f"{IN_SHELL} -c '{DETACH}' & trap '' TERM; {SPAWN} while :; do sleep 1; done"
    with Started("--budget", LONG, "--grace", "0.1", *shell(script)) as started:
        pids = [int(started.line()), int(started.line())]
        started.process.terminate()
        assert started.end().code == 128 + signal.SIGKILL
    assert not [pid for pid in pids if is_alive(pid)]


def test_what_was_ignored_at_the_start_stays_ignored() -> None:
    program = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    with ignored(signal.SIGHUP):
        done = run("--budget", LONG, "--", PYTHON, "-c", program)
    assert done.out == "True\n"


def test_the_exit_code_is_known_where_sigchld_was_ignored() -> None:
    program = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
    program += "os.execv(sys.argv[1], sys.argv[1:])"
    command = [PYTHON, "-c", program, *RUN, "--budget", LONG, *shell("exit 7")]
    done = subprocess.run(command, cwd=ROOT, env=environment(), timeout=PATIENCE, check=False)
    assert done.returncode == 7


def test_a_broken_pipe_ends_the_command_as_without_a_run() -> None:
    done = run("--budget", LONG, "--quiet", *shell("(yes; echo $? >&2) | head -n 1"))
    assert (done.out, done.err) == ("y\n", "141\n")


def test_a_command_that_ends_leaves_its_daemons_alone(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"{IN_SHELL} -c '{DETACH}' >{file} 2>&1; until [ -s {file} ]; do sleep 0.1; done"
    assert run("--budget", LONG, *shell(script)).code == 0
    pid = int(file.read_text())
    try:
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


# The deadline. A process that outlived the run would keep the pipe open that the test reads to its
# end.


def test_the_deadline_ends_a_command_that_ignores_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with ignored(signal.SIGTERM):
        done = run("--budget", "100 ms", "--grace", "0.1", "--report", file, "sleep", "600")
    assert done.code == 75
    assert "the deadline ended the command; the command's own exit code was 137" in done.err
    report = report_of(file)
    assert (report["ended_by"], report["exit_code"], report["signal"]) == ("deadline", 75, 9)


def test_the_deadline_ends_grandchildren_and_detached_processes() -> None:
    with ignored(signal.SIGTERM):
        script = f"(sleep 600 & {IN_SHELL} -c '{DETACH}'; wait) & wait"
        assert run("--budget", "1 s", "--grace", "0.1", *shell(script)).code == 75


def test_the_deadline_continues_a_stopped_command_so_that_it_can_end() -> None:
    script = "trap 'exit 0' TERM; kill -STOP $$; while :; do sleep 0.1; done"
    assert run("--budget", "1 s", "--grace", "600", *shell(script)).code == 75


def test_no_time_at_all_ends_the_command_at_once() -> None:
    assert run("--budget", "0 s", *shell("sleep 600")).code == 75


# What cannot be started


def test_a_command_that_is_not_there_is_127() -> None:
    done = run("--budget", LONG, "--", "no-such-command")
    assert done.code == 127
    assert "'no-such-command' was not found" in done.err


def test_a_folder_of_that_name_in_the_path_is_not_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-such-command").mkdir()  # exec says "Permission denied", as for a closed folder
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = run("--budget", LONG, "--", "no-such-command")
    assert done.code == 127
    assert "'no-such-command' was not found" in done.err


def test_a_file_that_cannot_be_executed_is_126(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("text")
    done = run("--budget", LONG, "--", file)
    assert done.code == 126
    assert f"'{file}' cannot be executed: Permission denied" in done.err

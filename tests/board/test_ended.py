"""A command that is ended by a signal."""

import fcntl
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired

from budget_cpython.board.build import Form
from budget_cpython.board.emulator import UnixBoard

from .support import (
    PATIENCE,
    Cli,
    build_of,
    digests,
    hashes,
    is_idle,
    is_whole,
    out,
    pseudo_terminal,
    read_until,
    runs,
    start,
    write,
)


def kill_after(board: UnixBoard, mine: Path, files: int, how: signal.Signals) -> tuple[int, str]:
    """Start a deploy, end it after so many files, and return its exit code and complaints.

    It is no more than a line ahead of what is read of it, so that it has not come to its end.
    """
    lines, its_end = os.pipe2(os.O_DIRECT)
    fcntl.fcntl(its_end, fcntl.F_SETPIPE_SZ, 4096)  # what holds a packet
    with (
        open(lines, "rb", buffering=0) as said,
        start("deploy", mine, "--source", "--port", board.port, stdout=its_end) as process,
    ):
        os.close(its_end)
        assert process.stderr is not None
        while files > 0:
            line = said.read(4096)
            assert line, process.stderr.read()
            files -= line.startswith(b"copy ")
        process.send_signal(how)
        said.readall()
        return process.wait(PATIENCE), process.stderr.read()


def test_the_next_deploy_continues_after_one_that_was_killed(cli: Cli, mine: Path) -> None:
    after = build_of(mine, Form.SOURCE)
    there = 3  # the settings and the programs
    for files in (1, 10):
        code, _ = kill_after(cli.board, mine, files, signal.SIGKILL)
        assert code == -signal.SIGKILL
        found = digests(cli.board)
        assert is_idle(found)
        correct = set(hashes(after).items()) & set(found.items())
        assert len(correct) >= there - 2 + files
        there = len(correct)
    assert cli("deploy", mine, "--source").code == 0
    assert is_whole(digests(cli.board), after)


def test_ctrl_c_ends_it_with_130_and_no_traceback(cli: Cli, mine: Path) -> None:
    code, complaints = kill_after(cli.board, mine, 3, signal.SIGINT)
    assert code == 130
    assert complaints == "interrupted\n"
    assert is_idle(digests(cli.board))


def test_the_program_runs_again_after_a_command_was_terminated(cli: Cli) -> None:
    with (
        pseudo_terminal() as (_, theirs),
        start("reset", "--port", cli.board.port, stdin=theirs) as process,
    ):
        read_until(out(process), "Do it? [y/N]")
        for _ in range(int(PATIENCE)):  # a signal right before the read does not end it
            process.send_signal(signal.SIGTERM)
            with suppress(TimeoutExpired):
                process.wait(1)
                break
        assert process.returncode == 143
    assert runs(cli.board)


def test_half_a_secret_is_not_left_behind(cli: Cli, mine: Path) -> None:
    write(cli.board, "/secret.py.new", "API_KEY = 'sk-m")
    assert "remove /secret.py.new" in cli("deploy", mine).out
    assert "/secret.py.new" not in digests(cli.board)

"""`microbudget board run unix`: the unix board in the foreground, and what it needs to start."""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from budget_cpython.board.emulator import UnixBoard
from tests.board.emulator.client import PATIENCE, Terminal
from tests.paths import ROOT

COUNT = """
for n in range(1, 100):
    with open("count", "w") as file:
        file.write(str(n))
"""
OLD_VFS = """\
#!/bin/sh
for program; do :; done
PROGRAM=$program exec "$NEWER" "$1" "$2" -c '
import os, sys
class vfs: pass
sys.modules["vfs"] = vfs
exec(os.getenv("PROGRAM"))'
"""
Served = subprocess.Popen[str]


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """Start the command with a folder of its own for temporary files."""
    command = [sys.executable, "-m", "budget_cpython.cli", "board", "run", "unix", *options]
    environment = {**os.environ, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1
    ) as served:
        try:
            yield served
        finally:
            served.kill()


def read_port(served: Served) -> str:
    """Return the port of a board that was turned on, once all of its commands are shown."""
    assert served.stdout is not None
    lines = [served.stdout.readline() for _ in range(4)]
    port = lines[0].partition("mpremote connect ")[2].split()[0]
    assert lines[2:] == [
        f"  microbudget board deploy unix --port {port}\n",
        f"  microbudget board run unix --port {port}\n",
    ]
    return port


def test_a_board_is_served_until_it_is_interrupted(tmp_path: Path) -> None:
    with serving(tmp_path, "--cut-power-after", "3", "--fs", "fat") as served:
        assert served.stdin is not None
        assert served.stdout is not None
        with Terminal(read_port(served)) as terminal, pytest.raises(EOFError):
            terminal.run(COUNT)
        assert "after 3 block operations" in served.stdout.readline()
        served.stdin.write("\n")
        served.stdout.read(len("Enter turns it on again, without a limit: "))
        with Terminal(read_port(served)) as terminal:
            assert terminal.run("print(6 * 7)") == "42\r\n"
        served.send_signal(signal.SIGINT)
        assert served.wait(PATIENCE) == 0
    assert list(tmp_path.iterdir()) == []


def processes_of(folder: Path) -> list[int]:
    """Return the processes that have a folder in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_leaves_no_process_and_no_folder(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving(tmp_path) as served:
        with Terminal(read_port(served)) as terminal:
            terminal.type(b"while True: pass\r\r")
            assert len(processes_of(tmp_path)) == 2
            served.send_signal(number)
            assert served.wait(PATIENCE) == code
        assert served.stderr is not None
        assert served.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


def test_a_hang_up_that_is_ignored_ends_nothing(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(tmp_path) as served, Terminal(read_port(served)) as terminal:
            served.send_signal(signal.SIGHUP)
            assert terminal.run("print(6 * 7)") == "42\r\n"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_board_that_computes_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(tmp_path) as served, Terminal(read_port(served)) as terminal:
            terminal.type(b"for n in range(1 << 60): m = n or print('be' + 'gun')\r\r")
            terminal.read_until(b"begun")
            (board,) = {*processes_of(tmp_path)} - {served.pid}
            ended = os.pidfd_open(board)
            served.kill()
            assert select.select([ended], [], [], PATIENCE)[0], "it still runs"
            os.close(ended)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout that has no MicroPython; nor is one on the PATH or in the environment."""
    for package in ("budget_core", "budget_cpython", "boards"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "checkout" / package, ignore=left_out)
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "checkout")
    monkeypatch.setenv("REAL", os.environ["MICROPYTHON"])
    monkeypatch.delenv("MICROPYTHON")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "checkout"


def test_a_checkout_has_the_micropython_that_was_installed_below_it(
    checkout: Path, tmp_path: Path
) -> None:
    installed = checkout / ".local/micropython/micropython"
    installed.parent.mkdir(parents=True)
    installed.write_text('#!/bin/sh\nPATH=/usr/bin:/bin exec "$REAL" "$@"\n')
    installed.chmod(0o755)
    with serving(tmp_path) as served, Terminal(read_port(served)) as terminal:
        assert terminal.run("print(6 * 7)") == "42\r\n"


def test_without_micropython_it_says_how_to_get_one(checkout: Path) -> None:
    command = [sys.executable, "-m", "budget_cpython.cli", "board", "run", "unix"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 1
    said = run.stderr
    for words in ("apt install micropython", "brew install", "make micropython", "MICROPYTHON="):
        assert words in said


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("#!/bin/sh\necho a riddle; exit 7\n", "ended with 7 before it was a board: a riddle"),
        (OLD_VFS, "the unix board needs MicroPython 1.25 or later"),
        ("no program", "Exec format error"),
    ],
    ids=["another", "older", "none"],
)
def test_the_error_has_the_output_of_a_first_process_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
) -> None:
    flash = tmp_path / "flash.img"
    with UnixBoard(flash):
        pass
    other = tmp_path / "other"
    other.write_text(program)
    other.chmod(0o755)
    monkeypatch.setenv("NEWER", os.environ["MICROPYTHON"])
    with pytest.raises((RuntimeError, OSError), match=words):
        UnixBoard(flash, micropython=str(other)).__enter__()

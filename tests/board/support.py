"""What the tests of the command line share."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.board.build import LIBRARY, Build, Form, build_board
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.device import UNFINISHED, Device
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.reach import left_out
from budget_cpython.board.state import ASIDE
from budget_cpython.cli import main
from tests.paths import ROOT

PATIENCE = 120  # seconds, where only hanging is to be seen
HEAP = "256k"
SETTINGS = """\
STATE = "/budget"
DAILY_BUDGET = 50_000
RESET_HOUR_UTC = 0
ALLOWANCE = 0
"""
MAIN = """\
def later():  # as `spend` does
    from budget_core import DailyBudgetConfig, DailyBudgetTracker
print("the program runs")
while True:
    print("it was told", input())
"""
_SPEND = """
import settings
from budget_core import DailyBudgetConfig, DailyBudgetTracker
from budget_core.board.device import open_store
tracker = DailyBudgetTracker(DailyBudgetConfig(settings.DAILY_BUDGET), store=open_store(settings))
tracker.record({{"total_tokens": {tokens}}})
"""


@dataclass
class Said:
    """The result of a command."""

    code: int
    out: str
    err: str


class Cli:
    """The command line, run here."""

    def __init__(self, board: UnixBoard, capture: pytest.CaptureFixture[str]) -> None:
        self.board = board
        self._capture = capture

    def __call__(self, *arguments: object) -> Said:
        return self.bare(*arguments, "--port", self.board.port)

    def bare(self, *arguments: object) -> Said:
        self._capture.readouterr()
        try:
            code = main(["board", *map(str, arguments)])
        except SystemExit as usage:
            code = int(usage.code or 0)
        return Said(code, *self._capture.readouterr())


class Started(subprocess.Popen[str]):
    """A process that is gone when its `with` block is: a test that fails does not wait for it."""

    def __exit__(self, *error: Any) -> None:
        self.kill()
        super().__exit__(*error)


def start(
    *arguments: object, stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE
) -> Started:
    """Start the command line as a process."""
    return Started(
        [sys.executable, "-m", "budget_cpython.cli", "board", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def make_board(folder: Path, main: str = MAIN) -> Path:
    """Make a board of a user's own."""
    folder.mkdir()
    (folder / "boot.py").write_text("print('it boots')\n")
    (folder / "main.py").write_text(main)
    (folder / "settings.py").write_text(SETTINGS)
    return folder


def build_of(board: Path, form: Form) -> Build:
    """Return what a deploy of a board's folder is to put on a board."""
    return build_board(board, form, left_out(board))


def digests(board: UnixBoard) -> dict[str, str]:
    """Return the hash of every file on a board, and leave its program stopped."""
    with BoardConnection(board.port) as connection:
        device = Device(connection)
        roots = connection.run("import os\nprint(*sorted(os.listdir('/')))").split()
        return device.digests([f"/{name}" for name in roots if name != "rom"])


def spend(board: UnixBoard, tokens: int) -> None:
    """Let a deployed board count tokens of today."""
    with BoardConnection(board.port) as connection:
        connection.run(_SPEND.format(tokens=tokens))


def write(board: UnixBoard, path: str, text: str) -> None:
    """Write a file on a board as it is."""
    with BoardConnection(board.port) as connection:
        connection.run(f"file = open({path!r}, 'wb')\nfile.write({text.encode()!r})\nfile.close()")


def read_file(board: UnixBoard, path: str) -> bytes:
    """Return the bytes of a file on a board."""
    with BoardConnection(board.port) as connection:
        return connection.read(path)


def remove(board: UnixBoard, paths: list[str]) -> None:
    """Remove files from a board."""
    with BoardConnection(board.port) as connection:
        connection.run(f"import os\nfor path in {paths!r}:\n    os.remove(path)")


def programs(found: dict[str, str]) -> dict[str, str]:
    """Return what a deploy is to put on a board: all but the state and the secrets."""
    return {
        path: digest
        for path, digest in found.items()
        if not path.startswith("/budget/") and path != "/secret.py"
    }


def hashes(build: Build) -> dict[str, str]:
    """Return the hashes of what is to be on a board."""
    return {path: sha256(data).hexdigest() for path, data in build.files.items()}


def library(found: dict[str, str]) -> dict[str, str]:
    """Return what there is of the core."""
    return {path: digest for path, digest in found.items() if path.startswith(LIBRARY)}


def copied(said: str) -> int:
    """Return how many files a deploy copied."""
    return sum(line.startswith("copy ") for line in said.splitlines())


def restart(board: UnixBoard, words: str) -> None:
    """Restart a board's program, and wait for some words of it."""
    with BoardConnection(board.port) as connection:
        connection.restart()
        read_until(connection.fileno(), words)


def out(process: "subprocess.Popen[str]") -> int:
    """Return the descriptor of what a process prints."""
    assert process.stdout is not None
    return process.stdout.fileno()


def read_until(descriptor: int, words: str) -> str:
    """Return what is said up to some words, which must come."""
    said = ""
    while words not in said:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        assert ready, said
        more = os.read(descriptor, 4096).decode()
        assert more, said
        said += more
    return said


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, int]]:
    """Open a terminal; yield what its user types at, and what a program has."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def runs(board: UnixBoard) -> bool:
    """Whether the program of `make_board` is there to be talked to, or will be."""
    line = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    said, end = b"", time.monotonic() + PATIENCE
    try:
        while b"it was told x" not in said and time.monotonic() < end:
            os.write(line, b"x\r")
            if select.select([line], [], [], 0.2)[0]:
                said += os.read(line, 4096)
    finally:
        os.close(line)
    return b"it was told x" in said


def state_of(cli: Cli) -> dict[str, str]:
    found = digests(cli.board)
    return {path: found[path] for path in found if path.startswith("/budget/")}


def status(cli: Cli) -> dict[str, Any]:
    said = cli("status", "--json")
    found = json.loads(said.out)
    assert said.out.count("\n") == 1
    assert isinstance(found, dict)
    return found


def damage(cli: Cli) -> None:
    for path in state_of(cli):
        if path.endswith("/state.json"):
            write(cli.board, path, "x" * 128)


def is_whole(found: dict[str, str], build: Build) -> bool:
    """Whether a build is there, whole, beside what the next deploy removes."""
    left = (ASIDE, UNFINISHED)
    return {
        path: digest for path, digest in programs(found).items() if not path.endswith(left)
    } == hashes(build)


def is_idle(found: dict[str, str]) -> bool:
    return "/main.py" not in found

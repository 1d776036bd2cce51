"""A board whose program left no memory is reached."""

from pathlib import Path

import pytest

from budget_cpython.board.emulator import UnixBoard

from .support import Cli, restart, write

FULL = """\
import gc
kept = []
try:
    while True:
        kept.append(bytearray(2000))
except MemoryError:
    for _ in range(2):
        kept.pop()
"""
MUTE = """\
import sys
def print(*values):
    raise MemoryError("memory allocation failed")
sys.stdout.write("there is no room")
"""


@pytest.mark.parametrize(
    ("heap", "form"), [("120k", "--mpy"), pytest.param("72k", "--romfs", marks=pytest.mark.slow)]
)
def test_an_agent_that_ran_out_of_memory_is_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], heap: str, form: str
) -> None:
    with UnixBoard(tmp_path / "flash.img", heap=heap, romfs=tmp_path / "rom.img") as board:
        cli = Cli(board, capsys)
        assert cli("deploy", "unix", form, "--force").code == 0
        restart(board, "MemoryError")
        status = cli("status")
        assert (status.code, status.err) == (0, "")
        assert "slots" in status.out
        assert "nothing to copy" in cli("deploy", "unix", form, "--force").out
        assert cli("reset", "--yes").code == 0


def test_a_program_that_cannot_print_is_interrupted(cli: Cli) -> None:
    write(cli.board, "/main.py", MUTE)
    restart(cli.board, "no room")
    status = cli("status")
    assert (status.code, status.err) == (0, "")


def test_a_program_that_filled_the_heap_is_interrupted(cli: Cli) -> None:
    write(cli.board, "/full.py", FULL)
    write(cli.board, "/main.py", "import full\nprint('full')\n")
    restart(cli.board, "full\r")
    status = cli("status")
    assert (status.code, status.err) == (0, "")

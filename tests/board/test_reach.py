"""A board whose program left no memory is reached; one that cannot be interrupted is named."""

import time
from pathlib import Path

import pytest

from budget_cpython.board import device, link
from budget_cpython.board.emulator import UnixBoard

from .support import PATIENCE, Cli, restart, write

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
STUBBORN = """\
import time
while True:
    try:  # one that comes between two rounds is swallowed out here
        while True:
            try:
                print("spam" * 10)
                time.sleep(.05)
            except KeyboardInterrupt:
                pass
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.parametrize(("heap", "form"), [("96k", "--romfs"), ("160k", "--mpy")])
def test_an_agent_without_room_leaves_the_board_within_reach(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], heap: str, form: str
) -> None:
    with UnixBoard(tmp_path / "flash.img", heap=heap, romfs=tmp_path / "rom.img") as board:
        cli = Cli(board, capsys)
        assert cli("deploy", "unix", form).code == 0
        restart(board, "MemoryError")
        status = cli("status")
        assert (status.code, status.err) == (0, "")
        assert "slots" in status.out
        assert "nothing to copy" in cli("deploy", "unix", form).out
        assert cli("reset", "--yes").code == 0


def test_to_run_out_of_memory_at_once_is_an_answer(cli: Cli) -> None:
    write(cli.board, "/main.py", MUTE)
    restart(cli.board, "no room")
    status = cli("status")
    assert (status.code, status.err) == (0, "")


def test_with_next_to_no_room_left_a_command_finds_more(cli: Cli) -> None:
    write(cli.board, "/full.py", FULL)
    write(cli.board, "/main.py", "import full\nprint('full')\n")
    restart(cli.board, "full\r")
    status = cli("status")
    assert (status.code, status.err) == (0, "")


def test_a_program_that_swallows_interrupts_and_talks_on_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listening(link.Link):
        """A link that tries no more once the program has answered."""

        def _interrupt(self) -> None:
            end = time.monotonic() + PATIENCE
            tries = iter(lambda: self._answered or time.monotonic() > end, True)
            monkeypatch.setattr(link, "ANSWER_S", (0.2 for _ in tries))
            super()._interrupt()

    write(cli.board, "/main.py", STUBBORN)
    restart(cli.board, "spam")
    monkeypatch.setattr(device, "Link", Listening)
    said = cli("status")
    assert said.code == 1
    assert "cannot be interrupted" in said.err
    assert "reset button" in said.err

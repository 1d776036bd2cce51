"""The unix board's power, and its clock."""

import time
from pathlib import Path
from typing import Literal

import pytest

from budget_cpython.board.emulator import UnixBoard
from tests.board.emulator.client import Terminal, mpremote

COUNT = """
for n in range(1, 100):
    with open("count", "w") as file:
        file.write(str(n))
    print(n)
"""
COUNTED = "print(open('count').read())"


@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_a_board_works_after_a_power_cut_at_any_block_operation(
    tmp_path: Path, filesystem: Literal["littlefs", "fat"]
) -> None:
    with UnixBoard(tmp_path / "flash.img", filesystem=filesystem) as board:
        with Terminal(board.port) as terminal:
            terminal.run("with open('count', 'w') as file: file.write('0')")
        for limit in range(1, 13):
            board.power_on(cut_power_after=limit)
            with Terminal(board.port) as terminal, pytest.raises(EOFError):
                terminal.run(COUNT)
            assert board.wait_for_power_cut()
            _, _, shown = board._line.said.rpartition(b"OK")  # a port that is gone may lose some
            assert board.operations == limit
            with pytest.raises(RuntimeError, match="off"):
                board.port  # noqa: B018
            board.power_on()
            with Terminal(board.port) as terminal:
                if filesystem == "littlefs" and shown:  # FAT promises nothing
                    assert int(terminal.run(COUNTED)) - int(shown.split()[-1]) in (0, 1)
                terminal.run(COUNT)
                assert terminal.run(COUNTED) == "99\r\n"


def write_and_reset_for_ever(terminal: Terminal) -> None:
    while True:
        terminal.run("with open('file', 'w') as file: file.write('x')")
        terminal.answer(b"\x04", b"soft reboot")


def test_a_limit_holds_over_resets(tmp_path: Path) -> None:
    with UnixBoard(tmp_path / "flash.img", cut_power_after=4) as board:
        with Terminal(board.port) as terminal, pytest.raises(EOFError):
            write_and_reset_for_ever(terminal)
        assert board.wait_for_power_cut()
        assert board.operations == 4


def test_mpremote_fails_when_the_power_is_cut(tmp_path: Path) -> None:
    source = tmp_path / "large.bin"
    source.write_bytes(bytes(20_000))
    with UnixBoard(tmp_path / "flash.img", cut_power_after=10) as board:
        mpremote(board.port, "cp", source, ":", code=1)
        assert board.wait_for_power_cut()


def test_data_that_was_not_flushed_is_lost_with_the_power(tmp_path: Path) -> None:
    with UnixBoard(tmp_path / "flash.img") as board:
        with Terminal(board.port) as terminal:
            terminal.run("file = open('open', 'w'); file.write('not closed')")
        board.power_off()
        board.power_on()
        with Terminal(board.port) as terminal:
            assert terminal.run("print(repr(open('open').read()))") == "''\r\n"


@pytest.mark.parametrize(
    ("clock", "year", "epoch"), [("unset", 2021, 1970), ("unset-2000", 2000, 2000)]
)
def test_an_unset_clock_starts_in_the_past_until_it_is_set(
    tmp_path: Path, clock: str, year: int, epoch: int
) -> None:
    years = "import time; print(time.gmtime()[0], time.localtime()[0], time.gmtime(0)[0])"
    with UnixBoard(tmp_path / "flash.img", clock=clock) as board:
        with Terminal(board.port) as terminal:
            assert terminal.run(years) == f"{year} {year} {epoch}\r\n"
            terminal.run("import machine; machine.RTC().datetime((2031, 5, 6, 0, 7, 8, 9, 0))")
            assert terminal.run("print(machine.RTC().datetime()[:3])") == "(2031, 5, 6)\r\n"
            terminal.answer(b"\x04", b"soft reboot")
            assert terminal.run(years) == f"2031 2031 {epoch}\r\n"
            since = "print(time.time() - time.mktime((2031, 5, 6, 7, 8, 0, 0, 0)))"
            assert int(terminal.run(since)) >= 9
        board.power_on()
        with Terminal(board.port) as terminal:
            assert terminal.run(years) == f"{year} {year} {epoch}\r\n"


@pytest.mark.parametrize(("clock", "epoch"), [(None, 0), ("2000", 946_684_800)])
def test_a_set_clock_reads_the_hosts_time(tmp_path: Path, clock: str | None, epoch: int) -> None:
    with (
        UnixBoard(tmp_path / "flash.img", clock=clock) as board,
        Terminal(board.port) as terminal,
    ):
        before = int(time.time())
        seconds = int(terminal.run("import time; print(time.time())"))
        assert before <= seconds + epoch <= time.time()

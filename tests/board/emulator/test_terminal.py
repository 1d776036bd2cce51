"""The unix board at a terminal: its REPL, its memory, and what reads its input."""

import pytest

from budget_cpython.board.emulator import UnixBoard
from tests.board.emulator.client import PATIENCE, Terminal


def put_main(terminal: Terminal, program: str) -> None:
    terminal.run(f"with open('main.py', 'w') as f: f.write({program!r})")


def test_the_prompt_shows_values_and_takes_statements_of_many_lines(terminal: Terminal) -> None:
    assert b"42" in terminal.answer(b"6 * 7\r")
    terminal.answer(b"def twice(n):\r", b"... ")
    terminal.answer(b"    return 2 * n\r", b"... ")
    terminal.answer(b"\r")
    assert b"\r\n84\r\n" in terminal.answer(b"twiced\x7f(\x1b[D42)\r")


@pytest.mark.parametrize(
    "program",
    [
        "import sys\nprint('ready')\nwhile True:\n    print('got', sys.stdin.readline())\n",
        "print('ready')\nwhile True:\n    print('got', input())\n",
        "import select, sys\npoll = select.poll()\npoll.register(sys.stdin, select.POLLIN)\n"
        "print('ready')\nwhile True:\n    poll.poll()\n    print('got', sys.stdin.readline())\n",
        "import asyncio, sys\nasync def main():\n    lines = asyncio.StreamReader(sys.stdin)\n"
        "    print('ready')\n    while True:\n"
        "        print('got', (await lines.readline()).decode())\nasyncio.run(main())\n",
    ],
    ids=["readline", "input", "poll", "asyncio"],
)
def test_a_program_reads_lines_and_is_interrupted_while_it_waits(
    terminal: Terminal, program: str
) -> None:
    put_main(terminal, program)
    terminal.answer(b"\x04", b"ready\r\n")
    terminal.answer(b"one\rtwo\r", b"got one")
    terminal.read_until(b"got two")
    assert b"KeyboardInterrupt" in terminal.answer(b"\x03")


def test_bytes_pass_as_they_are_while_interrupts_are_off(terminal: Terminal) -> None:
    program = """
import micropython, sys
micropython.kbd_intr(-1)
sys.stdout.buffer.write(b"say<")
sys.stdout.buffer.write(bytes(sys.stdin.buffer.read(256)))
micropython.kbd_intr(3)
"""
    put_main(terminal, program)
    terminal.answer(b"\x04", b"say<")
    every = bytes(range(256))
    assert terminal.answer(every, every) == every


def test_a_main_that_exits_is_started_again(terminal: Terminal) -> None:
    put_main(terminal, "import sys\nprint('again')\nif input() == 'exit':\n    sys.exit()\n")
    terminal.answer(b"\x04", b"again\r\n")
    assert b"MPY: soft reboot\r\nagain" in terminal.answer(b"exit\r", b"again\r\n")
    assert b">>> " in terminal.answer(b"stay\r")


def test_what_does_not_fit_in_the_heap_is_a_memory_error(terminal: Terminal) -> None:
    assert b"MemoryError" in terminal.answer(b"bytes(64 * 1024)\r")
    free = int(terminal.run("import gc; gc.collect(); print(gc.mem_free())"))
    assert 40 * 1024 < free < 64 * 1024


def test_a_programs_text_is_freed_before_it_runs(terminal: Terminal) -> None:
    program = "import gc; gc.collect(); print(gc.mem_free())\n"
    free, free_after_a_long_one = (
        int(terminal.run(program + "#" * length)) for length in (0, 8_000)
    )
    assert free_after_a_long_one > free - 1_000


def test_bytes_that_are_not_utf8_are_ignored(terminal: Terminal) -> None:
    assert b"Error" not in terminal.answer(b"\xff\xfe\r")


def test_memory_that_is_full_is_reported(terminal: Terminal) -> None:
    terminal.answer(b"full = []\r")
    terminal.answer(b"while True:\r", b"... ")
    terminal.answer(b"    full.append(bytes(64))\r", b"... ")
    assert b"MemoryError" in terminal.answer(b"\r")


def test_a_board_that_crashes_is_off(board: UnixBoard, terminal: Terminal) -> None:
    with pytest.raises(EOFError):
        terminal.answer(b"import ffi; ffi.open(None).func('v', 'abort', '')()\r")
    with pytest.raises(RuntimeError, match="-6"):
        board.wait_for_power_cut()


def test_a_program_continues_when_its_output_is_not_read(
    board: UnixBoard, terminal: Terminal
) -> None:
    put_main(terminal, "for n in range(20_000):\n    print(n)\nopen('done', 'w').close()\n")
    board.power_on(cut_power_after=1)
    assert board.wait_for_power_cut(PATIENCE)

"""When a Ctrl-C comes to a program of the unix board, and what is typed after it."""

import math

import pytest

from budget_cpython.board.emulator import UnixBoard, serial_line
from tests.board.emulator.client import Terminal, mpremote

ENDLESS = "print('at work')\nn = 0\nwhile True:\n    n += 1\n"
NOTING = """
import time
start = time.ticks_ms()
print("at work")
try:
    while True:
        pass
finally:
    ms = time.ticks_diff(time.ticks_ms(), start)
"""
SLEEPING = "import time\nprint('asleep')\ntime.sleep(10_000)\n"
COMPUTES_AND_SLEEPS = """
import time
print("at work")
for n in range(3_000_000):
    pass
print("computed")
time.sleep(10_000)
"""


def run_main(terminal: Terminal, program: str, shown: bytes) -> None:
    terminal.run(f"with open('main.py', 'w') as f: f.write({program!r})")
    terminal.answer(b"\x04", shown)


def test_a_busy_program_is_interrupted_after_three_seconds(terminal: Terminal) -> None:
    run_main(terminal, NOTING, b"at work\r\n")
    assert b"KeyboardInterrupt" in terminal.answer(b"\x03")
    assert int(terminal.run("print(ms)")) >= 3_000 == serial_line.BUSY_MS


def test_a_program_that_sleeps_is_interrupted_at_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_line, "BUSY_MS", math.inf)
    run_main(terminal, SLEEPING, b"asleep\r\n")
    assert b"KeyboardInterrupt" in terminal.answer(b"\x03")


def test_what_is_typed_after_an_interrupt_keeps_its_order(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_line, "BUSY_MS", math.inf)
    run_main(terminal, COMPUTES_AND_SLEEPS, b"at work\r\n")
    terminal.type(b"\x03typed = ")
    terminal.type(b"[1, 2]\r")
    terminal.type(b"typed.append(3)\rprint(sum(typed), 'is the sum')\r")
    assert b"computed" in terminal.read_until(b"KeyboardInterrupt")
    assert terminal.read_until(b"6 is the sum\r\n")


def test_a_busy_program_gets_text_at_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serial_line, "BUSY_MS", math.inf)
    polling = "import select, sys\npoll = select.poll()\npoll.register(sys.stdin, select.POLLIN)\n"
    polling += "print('at work')\nwhile not poll.poll(0):\n    pass\nprint(sys.stdin.readline())\n"
    run_main(terminal, polling, b"at work\r\n")
    assert b"a line" in terminal.answer(b"a line\r")


def test_mpremote_interrupts_a_main_that_has_just_been_started(
    board: UnixBoard, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_main(terminal, ENDLESS, b"at work\r\n")
    monkeypatch.setattr(serial_line, "BUSY_MS", 300)
    for _ in range(3):
        board.power_on()
        assert mpremote(board.port, "exec", "print('in time')") == "in time\n"

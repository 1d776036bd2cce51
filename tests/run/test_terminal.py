"""A run on a terminal: the line of what is left, and the keys that send signals."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.paths import ROOT
from tests.run.support import PATIENCE, PYTHON, RUN, environment

ROWS, COLUMNS = 12, 80
ESC = "\x1b"
# What a shell with job control does: the job has the terminal, and after Ctrl-Z the shell has. It
# stays at the end, since what was written last may be lost with the last process on a terminal.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    status = os.waitpid(job, os.WUNTRACED)[1]
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("[ended", os.waitstatus_to_exitcode(status), "]", sep="", flush=True)
        signal.pause()
    print("[stopped]", flush=True)
    input()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""
ONCE = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
print("seen", flush=True)
input()
print("again" if signal.sigpending() else "once")
"""  # a handler would not run while input() waits, if the signal came just before


class Terminal:
    """A terminal, and a shell in it that runs one `microbudget run`."""

    def __init__(self, *arguments: str) -> None:
        self.said = ""
        self.pid, self._keys = pty.fork()
        if not self.pid:
            os.chdir(ROOT)
            os.environ.update(environment({"TERM": "xterm"}))
            os.execv(PYTHON, [PYTHON, "-c", SHELL, *RUN, *arguments])  # noqa: S606
        self.resize(ROWS, COLUMNS)
        settings = termios.tcgetattr(self._keys)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self._keys, termios.TCSANOW, settings)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size, as a window does."""
        fcntl.ioctl(self._keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keys, keys.encode())

    def until(self, text: str) -> str:
        """Wait until the terminal was sent a text; return all since the last wait, up to it."""
        end = time.monotonic() + PATIENCE
        while text not in self.said:
            assert time.monotonic() < end, self.said
            if select.select([self._keys], [], [], 1)[0]:
                self.said += os.read(self._keys, 65_536).decode()
        before, found, self.said = self.said.partition(text)
        return before + found

    def close(self) -> None:
        """Hang up."""
        os.close(self._keys)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    one = Terminal(*arguments)
    try:
        yield one
    finally:
        one.close()


def without_line(said: str) -> str:
    """Return what a terminal was sent, without what draws the line and gives its row back."""
    said = re.sub(f"{ESC}7.*?{ESC}8", "", said, flags=re.DOTALL)
    return said.replace(f"{ESC}D{ESC}[A", "")


def python(program: str) -> tuple[str, ...]:
    return "--", PYTHON, "-c", program


def test_the_last_row_says_what_is_left_and_output_is_not_torn() -> None:
    program = "print('one, ', end='', flush=True); input(); print('two'); input(); print('three')"
    with terminal("--budget", "$5 + 7 calls + 90 min", *python(program)) as one:
        said = one.until("microbudget: 7 of 7 calls | $5.00 of $5.00 | 89 min left")
        assert f"{ESC}[1;{ROWS - 1}r" in said
        assert f"{ESC}[{ROWS};1H" in said
        one.type("\n")
        said += one.until("two\r\n")
        one.type("\n")
        said += one.until("[ended0]")
    assert without_line(said).startswith("one, two\r\nthree\r\n\r\nmicrobudget: 0 calls")
    assert f"{ESC}[{ROWS};1H{ESC}[2K{ESC}[r" in said  # cleared, and all rows scroll


def test_the_line_follows_the_size_of_the_terminal() -> None:
    with terminal("--budget", "7 calls", *python("input()")) as one:
        one.until("7 of 7 calls left")
        one.resize(20, 40)
        assert f"{ESC}[20;1H" in one.until("7 of 7 calls left")
        one.resize(20, 13)
        one.until(f"microbudget:{ESC}")  # a column is left free


def test_a_program_that_reads_single_keys_has_all_rows() -> None:
    program = "import tty; print(input()); tty.setcbreak(0); input()"
    with terminal("--budget", "7 calls", *python(program)) as one:
        one.until("7 of 7 calls left")
        one.type("go\n")
        one.until(f"{ESC}[r")


def test_ctrl_c_reaches_the_command_once() -> None:
    with terminal("--budget", "1 h", *python(ONCE)) as one:
        one.until("ready")
        one.type("\x03")
        one.until("seen")
        one.type("\n")
        assert "once" in one.until("[ended0]")


def test_after_ctrl_c_the_run_ends_by_the_signal_so_that_scripts_end() -> None:
    with terminal("--budget", "1 h", "--", "sh", "-c", "echo ready; exec sleep 600") as one:
        one.until("ready")
        one.type("\x03")
        assert "\r\nmicrobudget: 0 calls" in one.until(f"[ended{-signal.SIGINT}]")


def test_ctrl_z_stops_the_command_and_gives_the_row_back() -> None:
    with terminal("--budget", "7 calls", *python("print('on'); print(input(), 'then')")) as one:
        one.until("7 of 7 calls left")
        one.type("\x1a")
        assert f"{ESC}[r" in one.until("[stopped]")
        one.type("\n")
        one.until("7 of 7 calls left")
        one.type("first\n")
        one.until("first then")
        one.until("[ended0]")


def test_quiet_shows_no_line() -> None:
    with terminal("--budget", "7 calls", "--quiet", *python("print('ready'); input()")) as one:
        one.until("ready")
        one.resize(20, 40)
        one.type("\n")
        assert ESC not in one.until("[ended0]")

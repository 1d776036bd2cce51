"""Tools that a process can import: they end, fail, hang, linger and resist."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from budget_cpython.deadline import Deadline, DeadlineToken
from budget_cpython.executor import tool_options


@tool_options(process=True)
def add(a: int, b: int) -> int:
    return a + b


@tool_options(process=True)
def fail(text: str) -> None:
    raise LookupError(text)


class StubbornError(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("cannot be unpacked")


@tool_options(process=True)
def fail_stubbornly() -> None:
    raise StubbornError(1, 2)


@tool_options(process=True)
def return_a_lambda() -> Any:
    return lambda: None


@tool_options(process=True)
def exit_at_once(code: int) -> None:
    os._exit(code)


@tool_options(process=True)
def who_am_i() -> tuple[int, int, int]:
    return os.getpid(), os.getpgrp(), os.getppid()


@tool_options(process=True)
def time_left() -> float:
    return Deadline.current().remaining_seconds()


@tool_options(process=True)
def big(size: int, back: bytes) -> bytes:
    return back * size


@tool_options(process=True)
def hang_with_child(folder: str) -> None:
    """Leave the ids of this process and of one it starts, and hang."""
    code = "import time; time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code])
    leave(folder, f"{os.getpid()} {child.pid}")
    time.sleep(600)


@tool_options(process=True)
def ignore_term(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave(folder, str(os.getpid()))
    while True:
        time.sleep(600)


@tool_options(process=True)
def note_term(folder: str) -> None:
    """Leave a second file when TERM comes, and end."""

    def end(number: int, frame: object) -> None:
        Path(folder, "term").write_text("heard")
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    leave(folder, str(os.getpid()))
    while True:
        time.sleep(600)


@tool_options(process=True, cooperative=True)
def stop_when_told(folder: str, token: DeadlineToken) -> str:
    leave(folder, str(os.getpid()))
    while not token.is_expired():
        time.sleep(0.005)
    return "part"


def leave(folder: str, text: str) -> None:
    path = Path(folder, "pid.new")
    path.write_text(text)
    path.rename(Path(folder, "pid"))

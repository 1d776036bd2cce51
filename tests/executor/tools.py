"""Tools that a process can import: they end, fail, hang, linger and resist."""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from budget_cpython.context.deadline import Deadline, DeadlineToken
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
def hang() -> None:
    time.sleep(600)


@tool_options(process=True)
def hang_with_child(folder: str) -> None:
    """Leave the ids of this process and of one it starts, and hang."""
    code = "import time; time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code])
    leave(folder, f"{os.getpid()} {child.pid}")
    time.sleep(600)


@tool_options(process=True)
def leave_children(folder: str, end: bool) -> str:
    """Start a process that ignores TERM, leave its id, and return, or end without an answer."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", code + "; time.sleep(600)"], stdout=subprocess.PIPE
    )
    assert child.stdout
    child.stdout.readline()
    leave(folder, str(child.pid))
    if end:
        os._exit(3)
    return "answer"


@tool_options(process=True)
def ignore_term(folder: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    leave(folder, str(os.getpid()))
    while True:
        time.sleep(600)


@tool_options(process=True)
def stop_itself(folder: str) -> None:
    leave(folder, str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)


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
    end = time.monotonic() + 60
    while not token.is_expired():
        if time.monotonic() > end:
            return "all"
        time.sleep(0.005)
    return "part"


def leave(folder: str, text: str) -> None:
    path = Path(folder, "pid.new")
    path.write_text(text)
    path.rename(Path(folder, "pid"))


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


class ExitWhenAsked:
    """A result whose usage cannot be asked for."""

    @property
    def usage(self) -> None:
        raise SystemExit(3)


@tool_options(process=True)
def fail_without_words() -> None:
    raise WordlessError


@tool_options(process=True)
def hide_usage() -> ExitWhenAsked:
    return ExitWhenAsked()


@tool_options(process=True)
def say_usage() -> dict[str, Any]:
    return {"usage": {"input_tokens": 3, "output_tokens": 1}}


@tool_options(process=True, cooperative=True)
def kind_of_token(token: Any) -> str:
    return type(token).__name__


@tool_options(process=True)
def shut_the_pipe(folder: str) -> None:
    """Shut the writing side of every socket there is, so that no answer can come, and hang."""
    leave(folder, str(os.getpid()))
    for number in range(3, 64):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as end:
            end.shutdown(socket.SHUT_WR)
    time.sleep(600)


@tool_options(process=True)
def hang_with_daemon(folder: str) -> None:
    """Leave the id of a process that has left this one's group, and hang."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            leave(folder, str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    time.sleep(600)


@tool_options(process=True)
def wait_for_go(folder: str) -> str:
    leave(folder, str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.005)
    return "went"


@tool_options(process=True)
def linger() -> str:
    """Return while a thread that is no daemon goes on."""
    threading.Thread(target=time.sleep, args=(600,)).start()
    return "answer"


@tool_options(process=True)
def write_late(folder: str) -> str:
    """Return, and leave a file when the output is flushed, a while after that."""

    class Late(io.StringIO):
        def flush(self) -> None:
            time.sleep(0.3)
            leave(folder, "flushed")

    sys.stdout = Late()
    return "answer"


def in_thread(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a process's tool as one for a thread."""
    return lambda **arguments: tool(**arguments)

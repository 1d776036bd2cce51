"""A tool's process: it can be killed with all that it started."""

import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context, process
from multiprocessing.connection import Connection
from typing import Any

from budget_core.agent.stop import in_words
from budget_core.errors import BudgetError
from budget_cpython.context.deadline import Deadline, DeadlineToken
from budget_cpython.context.process_state import TOOL_GROUPS, at_end
from budget_cpython.executor.outcome import ToolKilled

_SPAWN = get_context("spawn")  # a fork would copy locks that other threads hold


class ToolProcessError(BudgetError):
    """A tool's process could not be given its work, or ended without a result."""


def run_in_process(
    name: str,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    cooperative: bool,
    token: DeadlineToken,
    kill_grace_s: float,
) -> Any:
    """Return the result of a function in a new process, or raise its error.

    When the process has ended, what is left of its group gets KILL, also where the function has
    returned. When the token is cancelled, the process and its group get TERM, and KILL at the
    latest `kill_grace_s` later; then `ToolKilled` is raised. A process that left the group (a
    daemon) is not found. Raises `ToolProcessError` for a function
    or arguments that cannot be sent, and for a process that ends without a result.
    """
    try:
        work = pickle.dumps((function, arguments, cooperative))
    except Exception as error:
        raise ToolProcessError(
            f"{name} cannot run in a process: it must be importable, and its arguments picklable: "
            f"{error}"
        ) from error
    child = _Child(name, kill_grace_s)
    token.on_cancel(child.stop)
    answer = child.ask(work, token.deadline)
    killed = child.stopped  # by the token; `join` stops one that lingers
    code = child.join()
    if not answer:
        if killed:
            raise ToolKilled
        raise ToolProcessError(f"the process of {name} ended with exit code {code} and no result")
    well, result = pickle.loads(answer)  # noqa: S301 - our own child wrote it
    if not well:
        raise result
    return result


class _Child:
    """A process with a group of its own; `stop` may be called by any thread, at any time."""

    def __init__(self, name: str, kill_grace_s: float) -> None:
        self._kill_grace_s = kill_grace_s
        self._pipe, theirs = _SPAWN.Pipe()
        with theirs:
            self._process = _SPAWN.Process(target=_serve, args=(theirs,), name=f"tool {name}")
            self._process.start()
        # Only `join` may reap it, while its group may be killed; nothing joins it at exit.
        getattr(process, "_children", set()).discard(self._process)
        self._pid = int(self._process.pid or 0)
        TOOL_GROUPS.add(self._pid)
        self._lock = threading.RLock()
        self._over = self.stopped = False

    def ask(self, work: bytes, deadline: Deadline) -> bytes:
        """Return the answer to the work, or nothing where the process ended without."""
        try:
            self._pipe.recv_bytes()  # it is ready: from here on the deadline's milliseconds count
            self._pipe.send_bytes(work)
            self._pipe.send_bytes(pickle.dumps(deadline))
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            return b""

    def stop(self) -> None:
        """Send TERM to the group, and KILL after the grace; return at once."""
        with self._lock:
            if not self._over and not self.stopped:
                self.stopped = True
                _send(self._pid, signal.SIGTERM)
                self._after_grace(self._kill)

    def _after_grace(self, work: Callable[[], None]) -> threading.Timer:
        timer = threading.Timer(min(self._kill_grace_s, threading.TIMEOUT_MAX), work)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # the system gives no more threads
            work()
        return timer

    def _kill(self) -> None:
        with self._lock:
            if not self._over:
                _send(self._pid, signal.SIGKILL)
                with suppress(OSError), socket.socket(fileno=os.dup(self._pipe.fileno())) as end:
                    end.shutdown(socket.SHUT_RDWR)  # one that left the group may hold the other end

    def join(self) -> int | None:
        """Wait for the end, kill what does not come to it, and return the exit code."""
        lingers = self._after_grace(self.stop)
        with suppress(ChildProcessError):  # it has ended, and SIGCHLD is ignored
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        lingers.cancel()
        with self._lock:
            self._over = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)  # before the group's id may be another's
        self._process.join()
        TOOL_GROUPS.discard(self._pid)
        self._pipe.close()
        code = self._process.exitcode
        with suppress(ValueError):  # where SIGCHLD is ignored, its exit code is unknown
            self._process.close()
        return code


def _send(pid: int, number: int) -> None:
    """Signal a group, or its process alone where that has not made its group yet."""
    with suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)


def _kill_all() -> None:
    for pid in list(TOOL_GROUPS):
        _send(pid, signal.SIGKILL)


at_end(_kill_all)


def _serve(pipe: Connection) -> None:
    """Do the work that comes through the pipe: what the child process runs."""
    os.setsid()
    pipe.send_bytes(b"ready")
    work = pipe.recv_bytes()
    deadline = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own parent wrote it
    threading.Thread(target=_die_with, args=(pipe,), daemon=True).start()
    pipe.send_bytes(_answer(work, deadline))
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)  # threads that the tool left behind are not waited for


def _die_with(parent: Connection) -> None:
    with suppress(EOFError, OSError):
        parent.recv_bytes()  # nothing ever comes: this ends when the parent has
    os.killpg(0, signal.SIGKILL)


def _answer(work: bytes, deadline: Deadline) -> bytes:
    try:
        function, arguments, cooperative = pickle.loads(work)  # noqa: S301 - our own parent's
        if cooperative:
            arguments["token"] = DeadlineToken(deadline)
        with deadline.as_current():
            return pickle.dumps((True, function(**arguments)))
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything, also what cannot be sent
        with suppress(Exception):  # a foreign error may refuse
            error.add_note("".join(traceback.format_exception(error)))
        return _packed(error)


def _packed(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - many an exception can be packed but not unpacked
    except Exception:  # noqa: BLE001
        packed = pickle.dumps((False, ToolProcessError(in_words(error))))
    return packed

"""Run a tool in a process of its own, which can be killed with all that it started."""

import atexit
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import (
    connection,
    get_context,
    util,  # noqa: F401 - joins processes at exit: what is registered below must come after it
)
from multiprocessing.connection import Connection
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.deadline import Deadline, DeadlineToken
from budget_cpython.executor.call import Stopped

_SPAWN = get_context("spawn")  # a fork would copy locks that other threads hold
_groups: set[int] = set()


class ToolProcessError(BudgetError):
    """A tool's process could not be started, or ended without a result."""


def run_in_process(
    name: str,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    cooperative: bool,
    token: DeadlineToken,
    kill_grace_s: float,
) -> Any:
    """Return what the function returns in a new process, or raise what it raises there.

    When the token is cancelled, the process and its group get TERM, and what is left of them KILL
    as soon as it has ended, at the latest `kill_grace_s` later; then `Stopped` is raised. A process
    that left the group (a daemon) is not found. Raises `ToolProcessError` for what cannot be sent,
    and for a process that ends without a result.
    """
    try:
        job = pickle.dumps((function, arguments, cooperative, token.deadline))
    except Exception as error:
        raise ToolProcessError(
            f"{name} cannot run in a process: it must be importable, and its arguments picklable: "
            f"{error}"
        ) from error
    ours, theirs = _SPAWN.Pipe()
    with ours:
        with theirs:
            child = _Child(name, theirs, kill_grace_s)
        token.on_cancel(child.stop)
        try:
            ours.send_bytes(job)
            answer = ours.recv_bytes()
        except (EOFError, OSError):
            answer = b""
        code = child.join()
    if not answer:
        if child.stopped:
            raise Stopped
        raise ToolProcessError(f"the process of {name} ended with exit code {code} and no result")
    well, result = pickle.loads(answer)  # noqa: S301 - our own child wrote it
    if not well:
        raise result
    return result


class _Child:
    """A process with a group of its own; `stop` may be called by any thread, at any time."""

    def __init__(self, name: str, pipe: Connection, kill_grace_s: float) -> None:
        self._kill_grace_s = kill_grace_s
        self._process = _SPAWN.Process(target=_serve, args=(pipe,), name=f"tool {name}")
        self._process.start()
        self._pid = int(self._process.pid or 0)
        _groups.add(self._pid)
        self._lock = threading.Lock()
        self._killer: threading.Thread | None = None
        self._over = self.stopped = False

    def stop(self) -> None:
        """Have the process killed, and return at once."""
        with self._lock:
            if not self._over and not self._killer:
                self.stopped = True
                self._killer = threading.Thread(target=self._kill, daemon=True)
                self._killer.start()

    def _kill(self) -> None:
        _send(self._pid, signal.SIGTERM)
        connection.wait([self._process.sentinel], self._kill_grace_s)
        _send(self._pid, signal.SIGKILL)

    def join(self) -> int | None:
        """Wait for the end, kill what does not come to it, and return the exit code."""
        if not self.stopped:
            connection.wait([self._process.sentinel], self._kill_grace_s)
            if not connection.wait([self._process.sentinel], 0):
                self.stop()
        with self._lock:
            self._over = True
        if self._killer:
            self._killer.join()
        self._process.join()  # not before: its id, which is the group's, could be another's
        _groups.discard(self._pid)
        code = self._process.exitcode
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
    for pid in list(_groups):
        _send(pid, signal.SIGKILL)


atexit.register(_kill_all)


def _serve(pipe: Connection) -> None:
    """Do the job that comes through the pipe: what the child process runs."""
    os.setsid()
    job = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own parent wrote it
    threading.Thread(target=_die_with, args=(pipe,), daemon=True).start()
    pipe.send_bytes(_answer(*job))


def _die_with(parent: Connection) -> None:
    with suppress(EOFError, OSError):
        parent.recv_bytes()  # nothing ever comes: this ends when the parent has
    os.killpg(0, signal.SIGKILL)


def _answer(
    function: Callable[..., Any], arguments: dict[str, Any], cooperative: bool, deadline: Deadline
) -> bytes:
    if cooperative:
        function = partial(function, token=DeadlineToken(deadline))
    try:
        with deadline.as_current():
            return pickle.dumps((True, function(**arguments)))
    except BaseException as error:  # noqa: BLE001 - a tool may raise anything, also what cannot be sent
        error.add_note("".join(traceback.format_exception(error)))
        return _packed(error)


def _packed(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - many an exception can be packed but not unpacked
    except Exception:  # noqa: BLE001
        told = ToolProcessError(f"{type(error).__name__}: {error}")
        packed = pickle.dumps((False, told))
    return packed

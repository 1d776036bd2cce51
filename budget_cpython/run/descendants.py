"""Find the processes that this one started, and all that they started."""

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

from budget_cpython.context.process_state import HELPERS

_SET_CHILD_SUBREAPER = 36  # of Linux's prctl
_ZOMBIE = "Z"


def adopt_orphans() -> bool:
    """Make this process the parent of descendants whose own parent ends; tell whether it is.

    Only Linux can. Elsewhere such a process is no longer found by `descendants`.
    """
    try:
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def descendants() -> list[int]:
    """Return the ids of all descendants that have not ended, parents before their children.

    The helpers of this process's own proxy are left out: they end with it.
    """
    children: dict[int, list[int]] = {}
    ended = set(HELPERS)
    for pid, parent, state in _processes():
        children.setdefault(parent, []).append(pid)
        if state.startswith(_ZOMBIE):
            ended.add(pid)
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, ())
    return [pid for pid in found[1:] if pid not in ended]


def send(number: int, pids: list[int]) -> None:
    """Send a signal to processes; one that has ended, or belongs to another user, is skipped."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end(pids: list[int]) -> None:
    """Ask processes to end; one that is stopped continues, so that it can."""
    send(signal.SIGTERM, pids)
    send(signal.SIGCONT, pids)


def _processes() -> list[tuple[int, int, str]]:
    """Return the id, the parent's id and the state of all processes."""
    proc = Path("/proc")
    if not (proc / "self/stat").exists():
        return _listed_by_ps()
    found = []
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                # The name before the last ")" may contain anything.
                state, parent = (
                    (folder / "stat").read_text("latin-1").rpartition(")")[2].split()[:2]
                )
                found.append((int(folder.name), int(parent), state))
    return found


def _listed_by_ps() -> list[tuple[int, int, str]]:
    import subprocess  # Linux needs none

    command = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ps:  # noqa: S603
        rows = [line.split() for line in ps.communicate()[0].splitlines()]
    return [(int(row[0]), int(row[1]), row[2]) for row in rows if int(row[0]) != ps.pid]

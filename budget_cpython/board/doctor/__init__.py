"""Examine a connected board, part by part, and change nothing on it.

What runs on the board for that is in the folder `programs`.
"""

import contextlib
from collections.abc import Callable, Iterator

from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.device import Device
from budget_cpython.board.doctor.contents import (
    check_deploy,
    check_files,
    check_firmware,
    check_store,
)
from budget_cpython.board.doctor.finding import EndedError
from budget_cpython.board.doctor.imports import check_imports
from budget_cpython.board.doctor.memory import check_memory
from budget_cpython.board.doctor.network import (
    check_clock,
    check_endpoint,
    check_ledger,
    check_name,
    check_wifi,
)
from budget_cpython.board.errors import BoardError
from budget_cpython.finding import Finding, Result, fails, ok

__all__ = ["Finding", "Result", "examine"]

# Each check, and those without which it cannot run.
_CHECKS: dict[str, tuple[Callable[[Device], Finding], tuple[str, ...]]] = {
    "imports": (check_imports, ("connection",)),
    "firmware": (check_firmware, ("connection",)),
    "deploy": (check_deploy, ("firmware",)),
    "files": (check_files, ("deploy",)),
    "wifi": (check_wifi, ("imports", "files")),
    "clock": (check_clock, ("imports", "files")),
    "name": (check_name, ("wifi",)),
    "endpoint": (check_endpoint, ("name",)),
    "ledger": (check_ledger, ("wifi",)),
    "store": (check_store, ("imports", "files")),
    "memory": (check_memory, ("imports", "files")),
}
_USB = "connect the board by a USB cable that carries data, and end other programs on its port"
_REPEAT = "repeat the command; if it fails again, `microbudget board run BOARD` shows what happens"


def examine(port: str) -> Iterator[tuple[str, Finding]]:
    """Check the board at a port; yield the name and the finding of each check.

    Its program is interrupted, and restarted at the end.
    """
    with contextlib.ExitStack() as stack:
        device, first = _connect(port, stack)
        yield "connection", first
        bad = set() if device else {"connection"}
        for name, (check, needed) in _CHECKS.items():
            missing = next((need for need in needed if need in bad), None)
            if device is None or missing:
                finding = Finding(Result.NOT_RUN, f"because the check `{missing}` failed")
            else:
                finding = _run(check, device)
            if finding.result is Result.FAILS or missing:
                bad.add(name)
            yield name, finding


def _connect(port: str, stack: contextlib.ExitStack) -> tuple[Device | None, Finding]:
    try:
        connection = stack.enter_context(BoardConnection(port))
    except BoardError as error:
        return None, fails(str(error), _USB)
    stack.callback(_restart, connection)
    return Device(connection), ok(f"MicroPython answers at {port}")


def _restart(connection: BoardConnection) -> None:
    with contextlib.suppress(BoardError):
        connection.restart()


def _run(check: Callable[[Device], Finding], device: Device) -> Finding:
    try:
        return check(device)
    except EndedError as ended:
        return ended.finding
    except BoardError as error:
        return fails(str(error), _REPEAT)

"""Shared by the commands `microbudget board …`: their help and the confirmation."""

import sys
from collections.abc import Callable
from typing import Any

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.cli import command as commands
from budget_cpython.cli.command import CliCommand, Run

PORT = f"""\
The board is the one at --port, else at ${PORT_VARIABLE}, else at the only USB serial port.
Its program is interrupted, MicroPython restarted without it, and at the end the program too."""


def command(options: str, **more: Any) -> Callable[[Run], CliCommand]:
    """Return the decorator of a command; its help says which board `--port` is, if it has one."""
    about = PORT if "--port" in options else ""
    return commands.command(options, None, about, **more)


def confirm(loss: str, yes: bool) -> None:
    """Print what will be lost; `BoardError` unless `yes` or the user agrees."""
    print(f"{loss[0].upper()}{loss[1:]}.", flush=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing was done: give --yes to skip the question")
    print("Do it? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BoardError("nothing was done")

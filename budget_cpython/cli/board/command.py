"""What the commands `microbudget board …` share: their parser and their question."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import BoardError, UsageError

PORT = f"""\
The board is the one at --port, else at ${PORT_VARIABLE}, else at the only USB serial port.
Its program is interrupted, MicroPython restarted without it, and at the end the program too."""


def add_command(
    below: Any,
    command: Callable[[argparse.Namespace], int],
    summary: str,
    examples: list[str],
    about: str = "",
    port: bool = True,
) -> argparse.ArgumentParser:
    """Add the subcommand that `command` runs, with `--port` if it needs a board.

    Its name is that of `command` without the first underscore.
    """
    text = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = below.add_parser(
        command.__name__[1:],
        help=summary,
        description="\n".join(filter(None, (text, about, PORT if port else ""))),
        epilog="\n  ".join(["examples:", *examples]) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if port:
        parser.add_argument("--port", help="the board's serial port, as in /dev/ttyACM0")
    parser.set_defaults(run=command)
    return parser


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`, which answers the question of `confirm`."""
    parser.add_argument("--yes", action="store_true", help="do not ask")


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

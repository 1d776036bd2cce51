"""What `microbudget board` understands; what it does is loaded when a command runs."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from budget_cpython.board import PORT_VARIABLE

_PORT = f"""\
The board is the one at --port, else at ${PORT_VARIABLE}, else at the only USB serial port.
Its program is interrupted meanwhile and started again at the end."""


def add_board(commands: Any) -> None:
    """Add `board` and what stands below it."""
    board = commands.add_parser(
        "board",
        help="put the agent program on a board, look after its budget",
        description="Put the agent program on a board, and look after its budget.\n" + _PORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    below = board.add_subparsers(metavar="COMMAND", required=True)
    for add in (_list, _deploy, _run, _status, _reset, _pull, _push):
        add(below)


def _list(below: Any) -> None:
    examples = ["microbudget board list --probe"]
    parser = _command(below, "list", "show the boards and the serial ports", examples, port=False)
    parser.add_argument("--probe", action="store_true", help="ask each port what is on it")


def _deploy(below: Any) -> None:
    examples = [
        "microbudget board deploy rp2_pico_w",
        "microbudget board deploy esp32_s3 --port /dev/ttyACM0 --secrets secret.py",
        "microbudget board deploy ./my_board --source",
        "microbudget board deploy ./my_board --without ledger",
    ]
    about = """\
Copies what differs from what is on the board and verifies it: the core into /lib, the board's
boot.py, main.py and settings.py, and deployed.py, which says what was deployed. secret.py and the
budget state are left alone. When it is interrupted, the board starts nothing; deploy again."""
    parser = _command(below, "deploy", "copy the core and a board's program", examples, about)
    parser.add_argument("board", metavar="BOARD", help="its name, or a folder, as in ./my_board")
    form = parser.add_mutually_exclusive_group()
    for name, text in (
        ("source", "the core as source, which the board compiles"),
        ("mpy", "the core precompiled (the default)"),
        ("romfs", "the core precompiled in the board's ROMFS partition, all of which it takes"),
        ("frozen", "no core: the firmware has it frozen in"),
    ):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="ROOM",
        help="leave out a room of the core that the program does not import: agent, board, chat or "
        "ledger; may be repeated",
    )
    parser.add_argument("--secrets", type=Path, metavar="FILE", help="copy FILE as /secret.py")
    parser.add_argument("--no-reset", action="store_true", help="do not start the new program")
    parser.set_defaults(form="mpy")


def _run(below: Any) -> None:
    examples = [
        "microbudget board run rp2_pico_w",
        "microbudget board run unix --heap 192k --flash flash.img",
    ]
    about = """\
Starts the board's program anew, shows what it prints and sends it what is typed. Ctrl-C stops
watching; the program runs on. `run unix` without --port starts a board that is a program here."""
    parser = _command(below, "run", "start the program and talk to it", examples, about)
    parser.add_argument("board", metavar="BOARD", help="the board that was deployed")
    unix = parser.add_argument_group("the unix board, without --port")
    unix.add_argument("--heap", default="256k", metavar="SIZE", help="of its heap (256k)")
    unix.add_argument("--flash", type=Path, metavar="FILE", help="keep its flash in FILE")
    unix.add_argument(
        "--fs", choices=("littlefs", "fat"), default="littlefs", help="its file system"
    )
    unix.add_argument("--romfs", type=Path, metavar="FILE", help="give it a ROMFS, kept in FILE")
    unix.add_argument(
        "--cut-power-after", type=int, metavar="N", help="cut its power after N flash operations"
    )
    unix.add_argument(
        "--clock", choices=("unset", "2000", "unset-2000"), help="what it has for a clock"
    )


def _status(below: Any) -> None:
    examples = ["microbudget board status", "microbudget board status --json"]
    about = "The exit code is 1 where the budget's state is damaged."
    parser = _command(below, "status", "show what the budget stands at", examples, about)
    parser.add_argument("--json", action="store_true", help="as one line of JSON")


def _reset(below: Any) -> None:
    examples = ["microbudget board reset --yes"]
    parser = _command(below, "reset", "forget what was spent", examples)
    _add_yes(parser)


def _pull(below: Any) -> None:
    examples = ["microbudget board pull saved"]
    parser = _command(below, "pull", "copy the budget's state from the board", examples)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to: new or empty")


def _push(below: Any) -> None:
    examples = ["microbudget board push saved --yes"]
    about = "The state must be whole; it replaces what the board has counted."
    parser = _command(below, "push", "copy a state that was pulled to the board", examples, about)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="what `pull` made")
    _add_yes(parser)


def _command(
    below: Any, name: str, summary: str, examples: list[str], about: str = "", port: bool = True
) -> argparse.ArgumentParser:
    text = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = below.add_parser(
        name,
        help=summary,
        description="\n".join(filter(None, (text, about, _PORT if port else ""))),
        epilog="\n  ".join(["examples:", *examples]) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if port:
        parser.add_argument("--port", help="the board's serial port, as in /dev/ttyACM0")
    parser.set_defaults(run=_lazily(name))
    return parser


def _lazily(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from budget_cpython.cli import board_commands

        code: int = getattr(board_commands, f"{name}_board")(options)
        return code

    return run


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")

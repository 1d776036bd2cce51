"""The commands `microbudget board …`; each imports what it needs when it runs."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import BoardError, UsageError

_PORT = f"""\
The board is the one at --port, else at ${PORT_VARIABLE}, else at the only USB serial port.
Its program is interrupted, MicroPython restarted without it, and at the end the program too."""


def add_board(commands: Any) -> None:
    """Add `board` and its subcommands."""
    board = commands.add_parser(
        "board",
        help="put the agent program on a board, look after its budget",
        description="Put the agent program on a board, and look after its budget.\n" + _PORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    below = board.add_subparsers(metavar="COMMAND", required=True)
    for add in (_add_list, _add_deploy, _add_run, _add_status, _add_reset, _add_pull, _add_push):
        add(below)


def _add_list(below: Any) -> None:
    examples = ["microbudget board list"]
    _command(below, _list, "show the boards and the serial ports", examples, port=False)


def _add_deploy(below: Any) -> None:
    examples = [
        "microbudget board deploy rp2_pico_w",
        "microbudget board deploy esp32_s3 --port /dev/ttyACM0 --secrets secret.py",
        "microbudget board deploy ./my_board --source",
        "microbudget board deploy ./my_board --without ledger",
    ]
    about = """\
Copies the files that differ, and verifies them: the core into /lib, the board's boot.py, main.py
and settings.py, and deployed.py, which names the board. secret.py and the budget state stay as they
are. After an interrupt the board starts nothing; deploy again."""
    parser = _command(below, _deploy, "copy the core and a board's program", examples, about)
    parser.add_argument("board", metavar="BOARD", help="its name, or a folder, as in ./my_board")
    form = parser.add_mutually_exclusive_group()
    for name, text in (
        ("source", "the core as source, which the board compiles"),
        ("mpy", "the core precompiled (the default)"),
        ("romfs", "the core precompiled in the board's ROMFS partition, and nothing else there"),
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


def _add_run(below: Any) -> None:
    examples = [
        "microbudget board run rp2_pico_w",
        "microbudget board run unix --heap 192k --flash flash.img",
    ]
    about = """\
Restarts the board's program, shows its output and sends it what is typed. Ctrl-C ends that; the
program continues. `run unix` without --port starts an emulated board on this machine."""
    parser = _command(below, _run, "start the program and talk to it", examples, about)
    parser.add_argument("board", metavar="BOARD", help="the board that was deployed")
    unix = parser.add_argument_group("the unix board, without --port")
    unix.add_argument("--heap", default="256k", metavar="SIZE", help="size of its heap (256k)")
    unix.add_argument("--flash", type=Path, metavar="FILE", help="keep its flash in FILE")
    unix.add_argument(
        "--fs", choices=("littlefs", "fat"), default="littlefs", help="its file system"
    )
    unix.add_argument("--romfs", type=Path, metavar="FILE", help="give it a ROMFS, kept in FILE")
    unix.add_argument(
        "--cut-power-after", type=int, metavar="N", help="cut its power after N flash operations"
    )
    unix.add_argument(
        "--clock", choices=("unset", "2000", "unset-2000"), help="its clock at power-up"
    )


def _add_status(below: Any) -> None:
    examples = ["microbudget board status", "microbudget board status --json"]
    about = "The exit code is 1 if the budget's state is damaged."
    parser = _command(
        below, _status, "show what the budget has spent and has left", examples, about
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_reset(below: Any) -> None:
    examples = ["microbudget board reset --yes"]
    parser = _command(below, _reset, "forget what was spent", examples)
    _add_yes(parser)


def _add_pull(below: Any) -> None:
    examples = ["microbudget board pull saved"]
    parser = _command(below, _pull, "copy the budget's state from the board", examples)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder")


def _add_push(below: Any) -> None:
    examples = ["microbudget board push saved --yes"]
    about = "The state must be whole; it replaces what the board has counted."
    parser = _command(below, _push, "copy a state that was pulled to the board", examples, about)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder that `pull` filled")
    _add_yes(parser)


def _command(
    below: Any,
    command: Callable[[argparse.Namespace], int],
    summary: str,
    examples: list[str],
    about: str = "",
    port: bool = True,
) -> argparse.ArgumentParser:
    text = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = below.add_parser(
        command.__name__[1:],
        help=summary,
        description="\n".join(filter(None, (text, about, _PORT if port else ""))),
        epilog="\n  ".join(["examples:", *examples]) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if port:
        parser.add_argument("--port", help="the board's serial port, as in /dev/ttyACM0")
    parser.set_defaults(run=command)
    return parser


def _add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _list(options: argparse.Namespace) -> int:
    from budget_cpython.board.connection import serial_ports
    from budget_cpython.board.known_boards import known_boards

    print("boards", *known_boards(), sep="\n  ")
    ports = serial_ports()
    print("serial ports" if ports else "no serial port found")
    for port, what in ports.items():
        print(f"  {port}  {what}".rstrip())
    return 0


def _deploy(options: argparse.Namespace) -> int:
    from budget_cpython.board.build import SECRETS, Form, build_board
    from budget_cpython.board.check import check_board, check_rooms, check_secrets
    from budget_cpython.board.deploy import Deploy
    from budget_cpython.board.device import work_on
    from budget_cpython.board.known_boards import find_board
    from budget_cpython.board.state import find_state

    board = find_board(options.board)
    check_rooms(board, options.without)
    needs_secrets = check_board(board)
    secrets = None if options.secrets is None else check_secrets(options.secrets)
    build = build_board(board, Form(options.form), options.without)
    with work_on(options.port, restart=not options.no_reset) as device:
        Deploy(device, build, partial(print, flush=True), secrets).run()
        state, made = find_state(device)
        if not made:
            print(
                f"the budget's state in {state} is gone: the board counts its day as spent; "
                "`microbudget board reset` makes a new one"
            )
        example = board / "secret_example.py"
        if needs_secrets and example.is_file() and not device.digests([SECRETS]):
            print(
                f"the board has no /secret.py: fill in a copy of {example} and deploy it with "
                "--secrets"
            )
    return 0


def _run(options: argparse.Namespace) -> int:
    try:
        import termios  # noqa: F401 - Windows has none
    except ImportError:
        raise BoardError(
            "`board run` needs Linux or macOS: elsewhere use `mpremote connect PORT repl`"
        ) from None
    if options.board == "unix" and options.port is None:
        return _run_unix(options)
    from budget_cpython.board.connection import BoardConnection, choose_port
    from budget_cpython.board.device import Device
    from budget_cpython.board.known_boards import find_board
    from budget_cpython.board.state import deployed_board
    from budget_cpython.board.terminal import attach_terminal

    name = find_board(options.board).name
    with BoardConnection(choose_port(options.port)) as connection:
        deployed = deployed_board(Device(connection))
        connection.restart()
        if deployed != name:
            raise BoardError(
                f"the board at {connection.port} has {deployed or 'nothing of microbudget'}, not "
                f"{name}: deploy it first, or choose another port"
            )
        attach_terminal(connection)
    print("\ndisconnected; the program continues", file=sys.stderr)
    return 0


def _status(options: argparse.Namespace) -> int:
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import lines, report_of

    with work_on(options.port) as device:
        report = report_of(device)
    print(json.dumps(report) if options.json else "\n".join(lines(report)))
    return 0 if report["error"] is None else 1


def _reset(options: argparse.Namespace) -> int:
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import lines, report_of, reset, what_is_lost

    with work_on(options.port) as device:
        _confirm(what_is_lost(report_of(device)), options.yes)
        reset(device)
        print("\n".join(lines(report_of(device))))
    return 0


def _pull(options: argparse.Namespace) -> int:
    folder = options.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists: name a new or an empty folder")
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import pull

    with work_on(options.port) as device:
        count = pull(device, folder)
    print(f"copied {count} files to {folder}")
    return 0


def _push(options: argparse.Namespace) -> int:
    from budget_cpython.board.state import check_pulled, lines, push, report_of, what_is_lost

    files = check_pulled(options.folder)
    from budget_cpython.board.device import work_on

    with work_on(options.port) as device:
        _confirm(what_is_lost(report_of(device)), options.yes)
        push(device, options.folder, files)
        print(f"copied {len(files)} files to the board")
        print("\n".join(lines(report_of(device))))
    return 0


def _run_unix(options: argparse.Namespace) -> int:
    """Serve an emulated board until Ctrl-C; after a power cut Enter turns it on again."""
    try:
        from budget_cpython.board.emulator import UnixBoard
    except ImportError:
        raise BoardError("the unix board needs: pip install 'microbudget[board]'") from None
    try:
        with (
            suppress(KeyboardInterrupt, EOFError),
            TemporaryDirectory() as folder,
            UnixBoard(
                options.flash or Path(folder, "flash.img"),
                heap=options.heap,
                filesystem=options.fs,
                cut_power_after=options.cut_power_after,
                clock=options.clock,
                romfs=options.romfs,
            ) as board,
        ):
            while True:
                print(f"the board is on: mpremote connect {board.port} (Ctrl-C turns it off)")
                print("next, in another terminal:")
                for command in ("deploy", "run"):
                    print(f"  microbudget board {command} unix --port {board.port}", flush=True)
                board.wait_for_power_cut()
                print(f"its power was cut after {board.operations} block operations", flush=True)
                input("Enter turns it on again, without a limit: ")
                board.power_on()
    except (ValueError, OSError, RuntimeError) as error:
        raise BoardError(f"the unix board: {error}") from None
    return 0


def _confirm(loss: str, yes: bool) -> None:
    """Print what will be lost; `BoardError` unless `yes` or the user agrees."""
    print(f"{loss[0].upper()}{loss[1:]}.", flush=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nothing was done: give --yes to skip the question")
    print("Do it? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BoardError("nothing was done")

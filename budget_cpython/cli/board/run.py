"""`microbudget board run`."""

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from budget_cpython.board.errors import BoardError
from budget_cpython.cli.board.command import command
from budget_cpython.cli.options import add_options


def _add_unix(parser: argparse.ArgumentParser) -> None:
    unix = parser.add_argument_group("the unix board, without --port")
    add_options(unix, "board run", "--heap --flash --fs --romfs --cut-power-after --clock")


@command("--port BOARD", extend=_add_unix)
def run(options: argparse.Namespace) -> int:
    """Start the program and talk to it.

    Restarts the board's program, shows its output and sends it what is typed. Ctrl-C ends that; the
    program continues. `run unix` without --port starts an emulated board on this machine.

    examples:
      microbudget board run rp2_pico_w
      microbudget board run unix --heap 320k --flash flash.img
    """
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
    from budget_cpython.board.state import deployed_board, is_halted
    from budget_cpython.board.terminal import attach_terminal

    name = find_board(options.board).name
    with BoardConnection(choose_port(options.port)) as connection:
        device = Device(connection)
        deployed, halted = deployed_board(device), is_halted(device)
        connection.restart()
        if deployed != name:
            raise BoardError(
                f"the board at {connection.port} has {deployed or 'nothing of microbudget'}, not "
                f"{name}: deploy it first, or choose another port"
            )
        if halted:
            raise BoardError(
                f"a deploy to the board at {connection.port} was interrupted, so no program "
                "starts: repeat it"
            )
        attach_terminal(connection)
    print("\ndisconnected; the program continues", file=sys.stderr)
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

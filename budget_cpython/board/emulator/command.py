"""The unix board in the foreground: `microbudget board run unix`."""

import argparse
import contextlib
import tempfile
from pathlib import Path

from budget_cpython.board.emulator.unix_board import UnixBoard


def run(options: argparse.Namespace) -> int:
    """Serve a board until Ctrl-C and return the exit code.

    The options are `heap`, `fs`, `flash`, `romfs`, `cut_power_after` and `clock`. Without `flash`
    the image is temporary. After a power cut the Enter key turns the board on again.
    """
    with (
        contextlib.suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="microbudget-board-") as folder,
    ):
        board = UnixBoard(
            options.flash or Path(folder, "flash.img"),
            heap=options.heap,
            filesystem=options.fs,
            cut_power_after=options.cut_power_after,
            clock=options.clock,
            romfs=options.romfs,
        )
        with board:
            _serve(board)
    return 0


def _serve(board: UnixBoard) -> None:
    while True:
        print(f"the board is on: mpremote connect {board.port} (Ctrl-C turns it off)")
        print("next, in another terminal:")
        for command in ("deploy", "run"):
            print(f"  microbudget board {command} unix --port {board.port}", flush=True)
        try:
            board.wait_for_power_cut()
            print(f"its power was cut after {board.operations} block operations", flush=True)
            input("Enter turns it on again, without a limit: ")
        except EOFError:
            return
        board.power_on()

"""The unix board in the foreground: `microbudget board run unix`."""

import argparse
import contextlib
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from budget_cpython.board.emulator.unix_board import UnixBoard

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run(options: argparse.Namespace) -> int:
    """Serve a board until Ctrl-C and return the exit code.

    Takes `heap`, `fs`, `flash`, `romfs`, `cut_power_after` and `clock` of the options. Without a
    `flash` its image is a temporary one. After a power cut it waits for the Enter key. Raises
    `SystemExit` with 128 and its number for a signal to terminate or hang up.
    """
    with (
        _Signals() as signals,
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
            _serve(board, signals)
    return 0


def _serve(board: UnixBoard, signals: "_Signals") -> None:
    while True:
        print(f"the board is on: mpremote connect {board.port} (Ctrl-C turns it off)")
        print("next, in another terminal:")
        for command in ("deploy", "run"):
            print(f"  microbudget board {command} unix --port {board.port}", flush=True)
        try:
            with signals.raised():
                board.wait_for_power_cut()
                print(f"its power was cut after {board.operations} block operations", flush=True)
                input("Enter turns it on again, without a limit: ")
        except EOFError:
            return
        board.power_on()


class _Signals:
    """The signals to end; one that comes while a board is turned on or off waits for that.

    One that was ignored, as by nohup, stays so.
    """

    def __init__(self) -> None:
        self._came = 0
        self._is_raised = False

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, handler in self._before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Raise `SystemExit` in here for what comes, and for what has come already."""
        self._is_raised = True
        try:
            if self._came:
                raise SystemExit(128 + self._came)
            yield
        finally:
            self._is_raised = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if self._is_raised:
            self._is_raised = False
            raise SystemExit(128 + number)

"""Get a board to listen: interrupt its program, and see that it runs what it is sent."""

import contextlib
import io
import time
from collections.abc import Iterator
from typing import Any

from budget_cpython.board.errors import BoardError

try:
    from mpremote.transport import (  # type: ignore[import-untyped]
        TransportError,
        TransportExecError,
    )
except ImportError:
    raise BoardError("boards are reached by mpremote: pip install 'microbudget[board]'") from None

ANSWER_S = (1, 2, 4)  # a program may take an interrupt or two to end
SILENCE_S = 10.0
RESTART_S = 30.0
QUIET_S = 0.2
MOST_READS = 5  # a program may never stop talking


class Contact:
    """The beginning of work with a board that is reached by a transport of mpremote's."""

    def __init__(self, transport: Any, port: str) -> None:
        self._transport = transport
        self._port = port
        self._heard = False

    def make(self) -> None:
        """Interrupt the program; `BoardError` where that cannot be, after some ten seconds."""
        for seconds in ANSWER_S:
            self._transport.serial.timeout = seconds
            self._transport.use_raw_paste = False  # what is plain is easier to begin anew
            with (
                contextlib.suppress(TransportError, OSError),
                contextlib.redirect_stdout(io.StringIO()),
            ):
                with self._bounded(seconds):
                    self._transport.enter_raw_repl(soft_reset=False, timeout_overall=seconds)
                if self._answers():
                    self._transport.use_raw_paste = True
                    self._transport.serial.timeout = SILENCE_S
                    return
            self._discard()
        if self._heard:
            raise BoardError(
                f"the program on the board at {self._port} does not let itself be interrupted: "
                "press the board's reset button and repeat the command at once; where that never "
                "helps, erase the board's flash, install its firmware and deploy again"
            )
        raise BoardError(
            f"no MicroPython answers at {self._port}: is this the board's port, and its firmware "
            "installed? Press its reset button and try again"
        )

    def renew(self) -> None:
        """Restart MicroPython without `main.py`; a `boot.py` that takes long is interrupted."""
        try:
            with self._bounded(RESTART_S), contextlib.redirect_stdout(io.StringIO()):
                self._transport.enter_raw_repl(soft_reset=True)
        except TransportError:
            self.make()

    def _answers(self) -> bool:
        """Return whether programs are run, if only to run out of memory at once."""
        try:
            with self._bounded(SILENCE_S):
                return bool(self._transport.exec("print(1)") == b"1\r\n")
        except TransportExecError:
            return True

    def _discard(self) -> None:
        """Let an answer that comes late pass, so that it is not taken for the next one."""
        self._transport.serial.timeout = QUIET_S
        for _ in range(MOST_READS):
            if not self._transport.serial.read(4096):
                return

    @contextlib.contextmanager
    def _bounded(self, seconds: float) -> Iterator[None]:
        """End what mpremote reads after so long: it looks at its own time only in a silence."""
        port, end = self._transport.serial, time.monotonic() + seconds
        read = port.read

        def read_in_time(size: int = 1) -> bytes:
            if time.monotonic() > end:
                raise TransportError("it talks on")
            said = bytes(read(size))
            self._heard |= bool(said)
            return said

        port.read = read_in_time
        try:
            yield
        finally:
            del port.read

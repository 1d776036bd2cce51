"""Reach a board through mpremote; only this module uses mpremote's transport and pyserial."""

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from budget_cpython.board.errors import BoardError, DeviceError
from budget_cpython.board.ports import may_be_busy, why_closed

try:
    import mpremote.commands as _commands  # type: ignore[import-untyped]
    import serial  # type: ignore[import-untyped]
    from mpremote.transport import (  # type: ignore[import-untyped]
        TransportError,
        TransportExecError,
    )
    from mpremote.transport_serial import SerialTransport  # type: ignore[import-untyped]
except ImportError:
    raise BoardError("boards are reached by mpremote: pip install 'microbudget[board]'") from None


BUSY_S = 2.0  # modem managers open each new port for a moment
ANSWER_S = (1, 2, 4)  # a program may need an interrupt or two
SILENCE_S = 10.0
RESTART_S = 30.0
QUIET_S = 0.2
MAX_READS = 5  # a program may print forever
_AGAIN_S = 0.05


class Link:
    """A connection to the board at a port, which interrupts its program and runs others.

    Raises `BoardError` if the port cannot be opened, nothing answers, the program cannot be
    interrupted or the board disconnects, and `DeviceError` if a program that was sent raises.
    """

    def __init__(self, port: str) -> None:
        self.port = port
        self._transport = _open(port)
        self._answered = False
        try:
            with self._errors():
                self._interrupt()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, program: str) -> str:
        """Run a program's text on the board and return its output, with Unix line ends."""
        with self._errors():
            said: bytes = self._transport.exec(program)
        return said.decode("utf-8", "replace").replace("\r\n", "\n")

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._errors(path):
            return bytes(self._transport.fs_readfile(path))

    def write_romfs(self, image: bytes) -> None:
        """Write an image to the first ROMFS partition; it is mounted at the next restart."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image.romfs")
            path.write_bytes(image)
            state = SimpleNamespace(
                transport=self._transport, ensure_raw_repl=_nothing, did_action=_nothing
            )
            args = SimpleNamespace(command=["deploy"], path=str(path), partition=0, mpy=False)
            with self._errors(), contextlib.redirect_stdout(io.StringIO()):
                _commands.do_romfs(state, args)

    def restart_idle(self) -> None:
        """Restart MicroPython with `boot.py` and without `main.py`; then programs can be sent.

        A `boot.py` that takes more than `RESTART_S` seconds, as without its Wi-Fi, is interrupted.
        """
        with self._errors():
            try:
                with self._bounded(RESTART_S), contextlib.redirect_stdout(io.StringIO()):
                    self._transport.enter_raw_repl(soft_reset=True)
            except TransportError:
                self._interrupt()

    def release(self) -> None:
        """Interrupt what runs, and leave the board at its prompt."""
        with self._errors():
            self._transport.serial.write(b"\x03")
            self._transport.exit_raw_repl()

    def restart(self) -> None:
        """Restart MicroPython and the board's program."""
        self.release()
        with self._errors():
            self._transport.serial.write(b"\x04")

    def send(self, data: bytes) -> None:
        """Send bytes to the running program."""
        with self._errors():
            self._transport.serial.write(data)

    def receive(self) -> bytes:
        """Return what the running program has sent; `fileno()` is readable when there is some."""
        with self._errors():
            waiting = self._transport.serial.in_waiting
            return bytes(self._transport.serial.read(waiting or 1))

    def fileno(self) -> int:
        """Return the port's file descriptor."""
        return int(self._transport.serial.fileno())

    def close(self) -> None:
        """Close the port; the board continues."""
        with contextlib.suppress(OSError):
            self._transport.close()

    def _interrupt(self) -> None:
        """Interrupt the program; `BoardError` if that fails for some ten seconds."""
        for seconds in ANSWER_S:
            self._transport.serial.timeout = seconds
            self._transport.use_raw_paste = False  # plain input is easier to start again
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
        if self._answered:
            raise BoardError(
                f"the program on the board at {self.port} cannot be interrupted: "
                "press the board's reset button and repeat the command at once; if that does not "
                "help, erase the board's flash, install its firmware and deploy again"
            )
        raise BoardError(
            f"no MicroPython answers at {self.port}: is this the board's port, and its firmware "
            "installed? Press its reset button and try again"
        )

    def _answers(self) -> bool:
        """Return whether programs run, even if only to raise a `MemoryError`."""
        try:
            with self._bounded(SILENCE_S):
                return bool(self._transport.exec("print(1)") == b"1\r\n")
        except TransportExecError:
            return True

    def _discard(self) -> None:
        """Drop a late answer, so that it is not taken for the next one."""
        self._transport.serial.timeout = QUIET_S
        for _ in range(MAX_READS):
            if not self._transport.serial.read(4096):
                return

    @contextlib.contextmanager
    def _bounded(self, seconds: float) -> Iterator[None]:
        """End reading after so many seconds: mpremote's own limit only counts silence."""
        port, end = self._transport.serial, time.monotonic() + seconds
        read = port.read

        def read_in_time(size: int = 1) -> bytes:
            if time.monotonic() > end:
                raise TransportError("it prints without end")
            said = bytes(read(size))
            self._answered |= bool(said)
            return said

        port.read = read_in_time
        try:
            yield
        finally:
            del port.read

    @contextlib.contextmanager
    def _errors(self, path: str = "") -> Iterator[None]:
        try:
            yield
        except TransportExecError as error:
            raise DeviceError(error.error_output) from None
        except (TransportError, _commands.CommandError) as error:
            raise BoardError(f"the board at {self.port}: {error}") from None
        except OSError as error:
            # pyserial's error for a port that is gone is an OSError too.
            if path and not isinstance(error, serial.SerialException) and error.errno != 5:
                raise BoardError(f"{path} on the board: {os.strerror(error.errno or 0)}") from None
            raise BoardError(f"the board at {self.port} disconnected: {error}") from None


def _open(port: str) -> Any:
    end = time.monotonic() + BUSY_S
    while True:
        try:
            # On a pseudo-terminal mpremote's timeouts work only with one of the port.
            return SerialTransport(port, timeout=SILENCE_S)
        except (TransportError, ValueError):
            if time.monotonic() >= end or not may_be_busy(port):
                raise BoardError(why_closed(port)) from None
        time.sleep(_AGAIN_S)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stand for functions of mpremote's command line."""

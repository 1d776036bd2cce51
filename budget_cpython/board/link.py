"""Reach a board through mpremote; all that is asked of mpremote and pyserial is asked here."""

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from budget_cpython.board.contact import SILENCE_S, Contact
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


BUSY_S = 2.0  # what looks for modems tries each port that appears, for a moment
_AGAIN_S = 0.05


class Link:
    """A board at a port, its program interrupted, that runs what it is sent.

    Raises `BoardError` where the port cannot be opened, nothing answers, its program cannot be
    interrupted or the board goes away, `DeviceError` where what was run there raises.
    """

    def __init__(self, port: str) -> None:
        self.port = port
        self._transport = _open(port)
        self._contact = Contact(self._transport, port)
        try:
            with self._told():
                self._contact.make()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, program: str) -> str:
        """Run a program's text on the board and return what it printed, line ends as here."""
        with self._told():
            said: bytes = self._transport.exec(program)
        return said.decode("utf-8", "replace").replace("\r\n", "\n")

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._told(path):
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
            with self._told(), contextlib.redirect_stdout(io.StringIO()):
                _commands.do_romfs(state, args)

    def restart_idle(self) -> None:
        """Restart MicroPython: `boot.py` runs, `main.py` does not, and programs can be sent.

        A `boot.py` that takes long, as without its Wi-Fi, is interrupted.
        """
        with self._told():
            self._contact.renew()

    def release(self) -> None:
        """Leave the board at its prompt, also in the midst of what it was sent."""
        with self._told():
            self._transport.serial.write(b"\x03")
            self._transport.exit_raw_repl()

    def restart(self) -> None:
        """Restart MicroPython and the board's program with it."""
        self.release()
        with self._told():
            self._transport.serial.write(b"\x04")

    def send(self, data: bytes) -> None:
        """Send bytes to the running program."""
        with self._told():
            self._transport.serial.write(data)

    def receive(self) -> bytes:
        """Return what the running program has sent by now; `fileno()` says when to ask."""
        with self._told():
            waiting = self._transport.serial.in_waiting
            return bytes(self._transport.serial.read(waiting or 1))

    def fileno(self) -> int:
        """Return the port's file descriptor."""
        return int(self._transport.serial.fileno())

    def close(self) -> None:
        """Close the port; the board keeps doing what it does."""
        with contextlib.suppress(OSError):
            self._transport.close()

    @contextlib.contextmanager
    def _told(self, path: str = "") -> Iterator[None]:
        try:
            yield
        except TransportExecError as error:
            raise DeviceError(error.error_output) from None
        except (TransportError, _commands.CommandError) as error:
            raise BoardError(f"the board at {self.port}: {error}") from None
        except OSError as error:
            # pyserial says with an OSError, too, that a port is gone.
            if path and not isinstance(error, serial.SerialException) and error.errno != 5:
                raise BoardError(f"{path} on the board: {os.strerror(error.errno or 0)}") from None
            raise BoardError(f"the board at {self.port} went away: {error}") from None


def _open(port: str) -> Any:
    end = time.monotonic() + BUSY_S
    while True:
        try:
            # On a pseudo-terminal mpremote's own time-outs need one of the port's.
            return SerialTransport(port, timeout=SILENCE_S)
        except (TransportError, ValueError):
            if time.monotonic() >= end or not may_be_busy(port):
                raise BoardError(why_closed(port)) from None
        time.sleep(_AGAIN_S)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stand for what mpremote's own command line does."""

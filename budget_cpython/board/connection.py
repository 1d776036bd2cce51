"""Reach a board through mpremote; only this module uses mpremote's transport and pyserial."""

import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import BoardError, DeviceError, UsageError

try:
    import mpremote.commands as _commands  # type: ignore[import-untyped]
    from mpremote.transport import (  # type: ignore[import-untyped]
        TransportError,
        TransportExecError,
    )
    from mpremote.transport_serial import SerialTransport  # type: ignore[import-untyped]
    from serial.tools import list_ports  # type: ignore[import-untyped]
except ImportError:
    raise BoardError("boards are reached by mpremote: pip install 'microbudget[board]'") from None


BUSY_S = 2  # modem managers open each new port for a moment
ANSWER_S = (1, 2, 4)  # a program may need an interrupt or two
SILENCE_S = 10.0
CHUNK = 512


def serial_ports() -> dict[str, str]:
    """Return the USB serial ports, with the name of each device."""
    found = {}
    for port in list_ports.comports():
        if port.vid is not None:
            found[str(port.device)] = " ".join(filter(None, (port.manufacturer, port.product)))
    return dict(sorted(found.items()))


def choose_port(given: str | None) -> str:
    """Return the given port, or that of the environment, or the only one."""
    found = choose_ports([given] if given else [])
    if found[1:]:
        raise UsageError(f"several serial ports: {', '.join(found)}; choose one with --port")
    return found[0]


def choose_ports(given: list[str]) -> list[str]:
    """Return the given ports, or those of the environment, separated by commas, or all."""
    named = [port.strip() for port in os.environ.get(PORT_VARIABLE, "").split(",")]
    found = given or list(filter(None, named)) or list(serial_ports())
    if not found:
        raise UsageError(
            "no serial port found: connect the board with a USB cable that carries data, or name "
            f"its port with --port or {PORT_VARIABLE}"
        )
    return list(dict.fromkeys(found))


class BoardConnection:
    """The board at a port, restarted without `main.py`, to run programs in its raw REPL.

    Raises `BoardError` if the port cannot be opened, nothing answers or the board disconnects, and
    `DeviceError` if a program that was sent raises.
    """

    def __init__(self, port: str) -> None:
        self.port = port
        wait = BUSY_S if os.path.exists(port) else 0
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                # On a pseudo-terminal mpremote's timeouts work only with one of the port.
                self._transport = SerialTransport(port, wait=wait, timeout=SILENCE_S)
        except (TransportError, ValueError):
            raise BoardError(_why_closed(port)) from None
        try:
            self.restart_idle()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, program: str, silence_s: float = 0) -> str:
        """Run a program's text on the board and return its output, with Unix line ends.

        It may print nothing for `silence_s` seconds, or for 10 if that is less.
        """
        with self._errors():
            said, error = self._transport.exec_raw(program, timeout=max(silence_s, SILENCE_S))
            if error:
                raise TransportExecError(said, error.decode("utf-8", "replace"))
        return bytes(said).decode("utf-8", "replace").replace("\r\n", "\n")

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._errors():
            return bytes(self._transport.fs_readfile(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        with self._errors():
            self._transport.fs_writefile(path, data, CHUNK)

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
        """Restart MicroPython with `boot.py` and without `main.py`.

        A `boot.py` that prints nothing for ten seconds, as without its Wi-Fi, is interrupted.
        """
        with self._errors(), contextlib.redirect_stdout(io.StringIO()):
            self._interrupt()
            try:
                self._transport.enter_raw_repl(soft_reset=True)
            except TransportError:
                self._interrupt()

    def release(self) -> None:
        """Interrupt what runs, and leave the board at its prompt."""
        self.send(b"\x03")
        with self._errors():
            self._transport.exit_raw_repl()

    def restart(self) -> None:
        """Restart MicroPython and the board's program."""
        self.release()
        self.send(b"\x04")

    def send(self, data: bytes) -> None:
        """Send bytes to what runs."""
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
        for seconds in ANSWER_S:
            self._transport.serial.timeout = seconds
            with contextlib.suppress(TransportError):
                self._transport.enter_raw_repl(soft_reset=False, timeout_overall=seconds)
                self._transport.serial.timeout = SILENCE_S
                return
        raise BoardError(
            f"no MicroPython answers at {self.port}: is this the board's port, and its firmware "
            "installed? Press its reset button and repeat the command at once"
        )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except TransportExecError as error:
            raise DeviceError(error.error_output) from None
        except (TransportError, _commands.CommandError) as error:
            raise BoardError(f"the board at {self.port}: {error}") from None
        except OSError as error:
            if error.errno == errno.ENOSPC:  # by `fs_writefile`, from the board
                raise DeviceError("OSError: ENOSPC") from None
            raise BoardError(f"the board at {self.port} disconnected: {error}") from None


def _why_closed(port: str) -> str:
    if port.startswith("/") and not os.path.exists(port):
        return (
            f"there is no port {port!r}; serial ports found: {', '.join(serial_ports()) or 'none'}"
        )
    if port.startswith("/") and not os.access(port, os.R_OK | os.W_OK):
        return (
            f"no permission to open {port}: join its group, as in "
            "`sudo usermod -a -G dialout $USER`, and log in again"
        )
    return f"{port} cannot be opened: another program has it, or it is not a serial port"


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stand for functions of mpremote's command line."""

"""Find the serial ports of this machine, and choose one of them."""

import os
import stat
from contextlib import suppress

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import BoardError, UsageError

try:
    from serial.tools import list_ports  # type: ignore[import-untyped]
except ImportError:
    raise BoardError("boards are reached by mpremote: pip install 'microbudget[board]'") from None


def serial_ports() -> dict[str, str]:
    """Return the USB serial ports, with the name of each device."""
    found = {}
    for port in list_ports.comports():
        if port.vid is not None:
            found[str(port.device)] = " ".join(filter(None, (port.manufacturer, port.product)))
    return dict(sorted(found.items()))


def choose_port(given: str | None) -> str:
    """Return the given port, or that of the environment, or the only one."""
    chosen = given or os.environ.get(PORT_VARIABLE)
    if chosen:
        return chosen
    found = list(serial_ports())
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several serial ports: {', '.join(found)}; choose one with --port")
    raise UsageError(
        f"no serial port found: connect the board with a USB cable that carries data, or name its "
        f"port with --port or {PORT_VARIABLE}"
    )


def may_be_busy(port: str) -> bool:
    """Return whether a port exists and may be opened, so that only another program can have it."""
    with suppress(OSError):
        return stat.S_ISCHR(os.stat(port).st_mode) and os.access(port, os.R_OK | os.W_OK)
    return False


def why_closed(port: str) -> str:
    """Return why a port cannot be opened, and what to do."""
    found = ", ".join(serial_ports()) or "none"
    if port.startswith("/") and not os.path.exists(port):
        return f"there is no port {port!r}; serial ports found: {found}"
    if port.startswith("/") and not os.access(port, os.R_OK | os.W_OK):
        return (
            f"no permission to open {port}: join its group, as in "
            "`sudo usermod -a -G dialout $USER`, and log in again"
        )
    return f"{port} cannot be opened: another program has it, or it is not a serial port"

"""Choose a port, and work with the board there while its program stands still."""

import contextlib
import os
from collections.abc import Iterator

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.board.link import Link, serial_ports


def choose_port(given: str | None) -> str:
    """Return the port given, or the environment's, or the only one there is."""
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


@contextlib.contextmanager
def work_on(port: str | None, restart: bool = True) -> Iterator[Device]:
    """Interrupt the program of a board, give its device, and start the program again at the end."""
    with Link(choose_port(port)) as link:
        try:
            device = Device(link)
            device.forget_program()
            device.check_firmware()
            yield device
        finally:
            with contextlib.suppress(BoardError):
                link.restart() if restart else link.release()


def what_is_on(port: str) -> str:
    """Return a few words about the board at a port; its program is started again."""
    try:
        with work_on(port) as device:
            version = ".".join(map(str, device.check_firmware()))
            board = deployed_board(device) or "nothing of microbudget"
            return f"MicroPython {version}, {board}"
    except BoardError as error:
        return str(error)


def deployed_board(device: Device) -> str | None:
    """Return the name of the board that was deployed to a device, or `None`."""
    name: str | None = device.ask(_DEPLOYED)
    return name


_DEPLOYED = """
import json
try:
    from deployed import BOARD
except ImportError:
    BOARD = None
print(json.dumps(BOARD))
"""

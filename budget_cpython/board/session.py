"""Work with the board at a port while its program stands still."""

import contextlib
from collections.abc import Iterator

from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError
from budget_cpython.board.link import Link
from budget_cpython.board.ports import choose_port
from budget_cpython.board.state import deployed_board


@contextlib.contextmanager
def work_on(port: str | None, restart: bool = True) -> Iterator[Device]:
    """Interrupt the program of a board, give its device, and start the program again at the end."""
    with Link(choose_port(port)) as link:
        try:
            device = Device(link)
            device.forget_program()
            device.with_room(device.check_firmware)
            yield device
        finally:
            with contextlib.suppress(BoardError):
                link.restart() if restart else link.release()


def what_is_on(port: str) -> str:
    """Return a few words about the board at a port; its program is started again."""
    try:
        with work_on(port) as device:
            return device.with_room(lambda: _about(device))
    except BoardError as error:
        return str(error)


def _about(device: Device) -> str:
    version = ".".join(map(str, device.check_firmware()))
    return f"MicroPython {version}, {deployed_board(device) or 'nothing of microbudget'}"

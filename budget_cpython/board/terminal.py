"""Show the output of a board's program, and send it what is typed."""

import contextlib
import os
import select
import sys
from collections.abc import Iterator

from budget_cpython.board.connection import BoardConnection

RESTARTED = b"soft reboot"


def attach_terminal(connection: BoardConnection) -> None:
    """Connect this terminal to a program that starts, until Ctrl-C; the program continues."""
    keyboard = sys.stdin.fileno()
    sources = [connection.fileno()]
    shown = b""
    with contextlib.suppress(KeyboardInterrupt), _unechoed(keyboard):
        while True:
            ready, _, _ = select.select(sources, [], [])
            if connection.fileno() in ready:
                said = connection.receive().replace(b"\x04", b"")
                sys.stdout.buffer.write(said)
                sys.stdout.buffer.flush()
                if RESTARTED not in shown:
                    shown += said
                    if RESTARTED in shown:  # input before that would be lost
                        sources.append(keyboard)
            if keyboard in ready:
                typed = os.read(keyboard, 256)
                if not typed:
                    sources.remove(keyboard)
                connection.send(typed.replace(b"\n", b"\r"))


@contextlib.contextmanager
def _unechoed(keyboard: int) -> Iterator[None]:
    """Read keys at once and without echo: the board echoes them."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

"""Two pseudo-terminals, joined: the outer one is a client's port, on the inner one runs a board."""

import os
import select
import termios
import time
import tty
from collections.abc import Callable

_CHUNK = 4096
_INTERRUPT = b"\x03"
_LOOK_MS = 5
_BUSY_S = 3.0
_PATIENCE_MS = 500
_DRAIN_MS = 20


class SerialLine:
    """What lies between a client and the board: bytes pass both ways until it is closed.

    The outer terminal is always there, so that a client may come and go; what nobody reads is
    dropped once its buffer is full and half a second has passed, as over USB. The inner one is the
    board's controlling terminal and makes an interrupt of a Ctrl-C while its program allows it.
    """

    def __init__(self) -> None:
        self._outer, self._port = os.openpty()
        self._inner, self.terminal = os.openpty()
        for end in (self._outer, self._inner):
            os.set_blocking(end, False)
        self._stop, self._stopper = os.pipe()
        self._waiting = b""
        self._waits_since: float | None = None
        self._is_read = True
        self.name = os.ttyname(self._port)
        tty.setraw(self._port)
        self.reset()

    def reset(self) -> None:
        """Put the board's terminal in the state a board finds at its start: every byte passes."""
        tty.setraw(self.terminal, termios.TCSANOW)
        mode = termios.tcgetattr(self.terminal)
        for key in (termios.VQUIT, termios.VSUSP):
            mode[6][key] = b"\0"
        termios.tcsetattr(self.terminal, termios.TCSANOW, mode)

    def pump(self, booted: int, ended: int, rests: Callable[[], bool]) -> None:
        """Pass bytes on until `ended` can be read, or the line is stopped.

        The board gets none before `booted` can be read: a Ctrl-C could not interrupt it yet.
        `rests` tells whether its process is asleep: an interrupt waits for that up to three
        seconds, because the unix port raises it wherever it is, in the midst of a garbage
        collection too, and may not work any more afterwards.
        """
        poll = select.poll()
        for descriptor in (booted, ended, self._stop, self._inner):
            poll.register(descriptor, select.POLLIN)
        listens = False
        while True:
            if listens:
                poll.register(self._outer, 0 if self._waiting else select.POLLIN)
                poll.register(self._inner, select.POLLIN | (select.POLLOUT if self._waiting else 0))
            held = listens and self._holds(rests)
            if held:
                poll.register(self._inner, select.POLLIN)
            ready = dict(poll.poll(_LOOK_MS if held else None))
            if booted in ready:
                listens = True
                poll.unregister(booted)
            if ready.get(self._outer, 0) & select.POLLIN:
                self._waiting = os.read(self._outer, _CHUNK)
            if listens and self._waiting and not self._holds(rests):
                self._waiting = self._waiting[_write(self._inner, self._waiting) :]
            if ready.get(self._inner, 0) & select.POLLIN:
                self.show(os.read(self._inner, _CHUNK))
            if ended in ready or self._stop in ready:
                return

    def _holds(self, rests: Callable[[], bool]) -> bool:
        """Return whether what waits is an interrupt, and the program it is for is busy."""
        running = _INTERRUPT in self._waiting and (
            termios.tcgetattr(self._inner)[3] & termios.ISIG and not rests()
        )
        now = time.monotonic()
        if not running:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now
        return bool(running) and now - (self._waits_since or now) < _BUSY_S

    def stop(self) -> None:
        """End `pump`, from another thread."""
        os.write(self._stopper, b"!")

    def drain(self) -> None:
        """Pass on what the board has written."""
        poll = select.poll()
        poll.register(self._inner, select.POLLIN)
        while poll.poll(_DRAIN_MS):
            self.show(os.read(self._inner, _CHUNK))

    def show(self, text: bytes) -> None:
        """Write to the client's side; once nobody reads for a while, drop what does not fit."""
        poll = select.poll()
        poll.register(self._outer, select.POLLOUT)
        while text := text[_write(self._outer, text) :]:
            self._is_read = bool(poll.poll(_PATIENCE_MS if self._is_read else 0))
            if not self._is_read:
                return

    def hang_up(self) -> None:
        """Let the port vanish for whoever has it open, as an unplugged one does."""
        for descriptor in (self._outer, self._port, self._inner, self.terminal):
            os.close(descriptor)

    def close(self) -> None:
        """Close what `hang_up` has left."""
        os.close(self._stop)
        os.close(self._stopper)


def _write(descriptor: int, data: bytes) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0

"""Two joined pseudo-terminals: the outer one is a client's port, the inner one a board's."""

import os
import select
import termios
import time
import tty
from pathlib import Path

_CHUNK = 4096
_INTERRUPT = b"\x03"
_LOOK_MS = 5
BUSY_MS = 3_000.0
_PATIENCE_MS = 500


class SerialLine:
    """A serial line between a client and the board: it passes bytes both ways until it is closed.

    The outer terminal stays open while clients come and go. When its buffer is full and nothing
    reads for half a second, bytes are dropped, as over USB. The inner terminal is the board's
    controlling terminal: a Ctrl-C becomes an interrupt if the board's program allows it.
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
        self.said = b""
        self.name = os.ttyname(self._port)
        tty.setraw(self._port)
        self.reset()

    def reset(self) -> None:
        """Set the board's terminal to its state at a start: every byte passes."""
        tty.setraw(self.terminal, termios.TCSANOW)
        mode = termios.tcgetattr(self.terminal)
        for key in (termios.VQUIT, termios.VSUSP):
            mode[6][key] = b"\0"
        termios.tcsetattr(self.terminal, termios.TCSANOW, mode)
        self.said = b""

    def pump(self, ends: tuple[int, ...], process: int | None = None) -> frozenset[int]:
        """Pass bytes until one of `ends` can be read, or the line is stopped; return which.

        The board gets bytes only with the id of its `process`. An interrupt, and the input after
        it, waits up to three seconds for that to sleep: the unix port raises it anywhere, even in a
        garbage collection, and may not work afterwards.
        """
        poll = select.poll()
        for descriptor in (*ends, self._stop):
            poll.register(descriptor, select.POLLIN)
        while True:
            waits = process is not None and self._waiting != b""
            passes = process is not None and waits and not self._holds(process)
            if process is not None:
                poll.register(self._outer, 0 if waits else select.POLLIN)
            poll.register(self._inner, select.POLLIN | (select.POLLOUT if passes else 0))
            ready = dict(poll.poll(_LOOK_MS if waits and not passes else None))
            if ready.get(self._outer, 0) & select.POLLIN:
                self._waiting = os.read(self._outer, _CHUNK)
            if ready.get(self._inner, 0) & select.POLLOUT:
                self._waiting = self._waiting[_write(self._inner, self._waiting) :]
                self._waits_since = None
            if ready.get(self._inner, 0) & select.POLLIN:
                self.show(os.read(self._inner, _CHUNK))
            if self._stop in ready or not ready.keys().isdisjoint(ends):
                return frozenset(ready)

    def _holds(self, process: int) -> bool:
        """Return whether an interrupt still waits for a busy program."""
        interrupts = _INTERRUPT in self._waiting and (
            termios.tcgetattr(self._inner)[3] & termios.ISIG
        )
        if not interrupts or _sleeps(process):
            return False
        now = time.monotonic()
        if self._waits_since is None:
            self._waits_since = now
        return (now - self._waits_since) * 1000 < BUSY_MS

    def stop(self) -> None:
        """End `pump`, from another thread."""
        os.write(self._stopper, b"!")

    def drain(self) -> None:
        """Pass the last output of a board that has ended."""
        poll = select.poll()
        poll.register(self._inner, select.POLLIN)
        while poll.poll(0):  # a line that is full would take no mark
            self.show(os.read(self._inner, _CHUNK))
        mark = os.urandom(16).hex().encode()  # after all output that is still in the line
        os.write(self.terminal, mark)
        said = b""
        while not said.endswith(mark):
            poll.poll()
            said += os.read(self._inner, _CHUNK)
        self.show(said.removesuffix(mark))

    def show(self, text: bytes) -> None:
        """Write to the client; if it does not read for a while, drop what does not fit.

        The same when the line is stopped. `said` keeps the end of the output.
        """
        self.said = (self.said + text)[-_CHUNK:]
        poll = select.poll()
        poll.register(self._outer, select.POLLOUT)
        poll.register(self._stop, select.POLLIN)
        while text := text[_write(self._outer, text) :]:
            ready = dict(poll.poll(_PATIENCE_MS if self._is_read else 0))
            self._is_read = self._outer in ready
            if not self._is_read:
                return

    def hang_up(self) -> None:
        """Close both terminals, so that the port vanishes like an unplugged one."""
        for descriptor in (self._outer, self._port, self._inner, self.terminal):
            os.close(descriptor)

    def close(self) -> None:
        """Close the rest, after `hang_up`."""
        os.close(self._stop)
        os.close(self._stopper)


def _write(descriptor: int, data: bytes) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0


def _sleeps(process: int) -> bool:
    """Return whether a process waits in a system call."""
    status = Path(f"/proc/{process}/stat").read_bytes()
    return status.rpartition(b")")[2].split()[0] == b"S"

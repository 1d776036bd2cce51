"""Read lines from a serial line byte by byte, without blocking the event loop."""

import asyncio
import select
import sys

from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_POLL_S = 0.01
_READ_EVERY = 6_000  # polls: a minute
_END = b"\x04"
_ESCAPE = b"\x1b"
_RUBBED_OUT = "\b \b"


class LineEditor:
    """The line that is being typed: a serial line has no line editor of its own.

    Backspace takes a character back, Ctrl-U all of them; arrow keys and the like do nothing. A
    line ends with CR, LF or both, and has at most `most` characters. `done` is `None` until then.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.done: str | None = None
        self._typed: list[str] = []
        self._pending = b""  # of a character, or of what a key sends after ESC
        self._after_cr = False

    def take(self, byte: bytes) -> str:
        """Take a byte and return what the terminal is to show for it."""
        after_cr, self._after_cr = self._after_cr, byte == b"\r"
        if byte == b"\n" and after_cr:
            return ""
        if byte in (b"\r", b"\n"):
            self.done = "".join(self._typed)
            self._typed = []
            self._pending = b""
            return "\r\n"
        if self._pending[:1] == _ESCAPE or byte == _ESCAPE:
            self._skip(byte)
            return ""
        if byte in (b"\b", b"\x7f", b"\x15"):
            return self._rub_out(len(self._typed) if byte == b"\x15" else 1)
        return "" if byte < b" " else self._add(byte)

    @property
    def empty(self) -> bool:
        """Whether nothing is typed."""
        return not self._typed

    def _skip(self, byte: bytes) -> None:
        self._pending = self._pending + byte if byte != _ESCAPE else byte
        begun = len(self._pending) < 3 and byte in (_ESCAPE, b"[", b"O")
        if not begun and (byte >= b"@" or self._pending[1:2] not in (b"[", b"O")):
            self._pending = b""

    def _rub_out(self, count: int) -> str:
        gone = self._typed[len(self._typed) - count :] if self._typed else []
        self._typed = self._typed[: len(self._typed) - len(gone)]
        return _RUBBED_OUT * len(gone)

    def _add(self, byte: bytes) -> str:
        self._pending += byte
        try:
            char = self._pending.decode()
        except UnicodeError:
            if len(self._pending) >= 4:
                self._pending = b""
            return ""
        self._pending = b""
        if len(self._typed) >= self.most:
            return "\a"
        self._typed.append(char)
        return char


class Keyboard:
    """Lines typed at a terminal, or piped in.

    `echo` shows what is typed, as no serial line does by itself. `source` is a stream with a file
    beneath that can be polled, by default `sys.stdin`; `show` writes a text at once.
    """

    def __init__(
        self,
        echo: bool = True,
        most: int = 1000,
        source: "Any" = None,
        show: "Callable[[str], object] | None" = None,
    ) -> None:
        source = source or sys.stdin
        self._echo = echo
        self._show = show or _show
        self._line = LineEditor(most)
        bytewise = getattr(source, "buffer", source)
        self._file = getattr(bytewise, "raw", bytewise)  # CPython's buffer reads ahead of the poll
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)

    async def line(self, prompt: str) -> str | None:
        """Return the next line, or `None` at the end of input, which is Ctrl-D at a terminal."""
        self._show(prompt)
        line = self._line
        line.done = None
        idle = 0
        while line.done is None:
            while not self._poll.poll(0):
                await asyncio.sleep(_POLL_S)
                idle += 1
                if idle % _READ_EVERY == 0:
                    MONOTONIC.read()  # unread for 12 days it would lose as many
            byte = self._file.read(1)
            if not byte or (byte == _END and line.empty):
                self._show("\r\n")
                return None
            shown = line.take(byte)
            if self._echo and shown:
                self._show(shown)
        return line.done


def _show(text: str) -> None:
    sys.stdout.write(text)
    flush = getattr(sys.stdout, "flush", None)
    if flush is not None:
        flush()

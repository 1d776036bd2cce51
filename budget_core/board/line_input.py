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
_END = b"\x04"
_ESCAPE = b"\x1b"
_ALL = b"\x15"


class Keyboard:
    """Lines typed at a terminal, or piped in: a serial line has no line editor of its own.

    Backspace takes a character back, Ctrl-U all of them; arrow keys and the like do nothing. A
    line ends with CR, LF or both, and has at most `most` characters. `echo` shows what is typed, as
    no serial line does by itself. `source` is a stream with a file beneath that can be polled, by
    default `sys.stdin`; `show` writes a text at once.
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
        self._most = most
        self._show = show or _show
        self._typed: list[str] = []
        self._pending = b""  # of a character, or of what a key sends after ESC
        self._last = b""
        bytewise = getattr(source, "buffer", source)
        self._file = getattr(bytewise, "raw", bytewise)  # CPython's buffer reads ahead of the poll
        self._poll = select.poll()
        self._poll.register(source, select.POLLIN)

    async def line(self, prompt: str) -> str | None:
        """Return the next line, or `None` at the end of input, which is Ctrl-D at a terminal."""
        self._show(prompt)
        line = None
        while line is None:
            while not self._poll.poll(0):
                await asyncio.sleep(_POLL_S)
                MONOTONIC.read()  # unread for 12 days it would lose as many
            byte, last = self._file.read(1), self._last
            self._last = byte
            if not byte or (byte == _END and not self._typed):
                self._show("\r\n")
                return None
            if byte == b"\n" and last == b"\r":
                continue
            if byte in (b"\r", b"\n"):
                line = "".join(self._typed)
                self._typed = []
                self._pending = b""
                shown = "\r\n"
            else:
                shown = self._take(byte)
            if self._echo and shown:
                self._show(shown)
        return line

    def _take(self, byte: bytes) -> str:
        """Take a byte of a line and return what the terminal is to show for it."""
        if byte == _ESCAPE:
            self._pending = byte
            return ""
        if self._pending[:1] == _ESCAPE:  # ESC and a byte, or ESC [ or ESC O up to a letter or `~`
            if self._pending == _ESCAPE and byte in (b"[", b"O"):
                self._pending += byte
            elif self._pending == _ESCAPE or byte >= b"@":
                self._pending = b""
            return ""
        if byte in (b"\b", b"\x7f", _ALL):
            left = 0 if byte == _ALL else max(0, len(self._typed) - 1)
            gone = len(self._typed) - left
            self._typed = self._typed[:left]
            return "\b \b" * gone
        if byte < b" ":
            return ""
        self._pending += byte
        try:
            char = self._pending.decode()
        except UnicodeError:
            if len(self._pending) >= 4:
                self._pending = b""
            return ""
        self._pending = b""
        if len(self._typed) >= self._most:
            return "\a"
        self._typed.append(char)
        return char


def _show(text: str) -> None:
    sys.stdout.write(text)
    flush = getattr(sys.stdout, "flush", None)
    if flush is not None:
        flush()

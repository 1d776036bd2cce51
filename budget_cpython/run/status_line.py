"""Show a line at the bottom of a terminal that a command writes to at the same time."""

import os
import termios
from collections.abc import Callable
from contextlib import suppress

_LEAST_ROWS = 5
_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN, _UP = "\x1bD", "\x1b[A"  # in the same column; at the bottom the terminal scrolls


class StatusLine:
    """The last row of a terminal: the rows above it scroll, and it stays.

    Each change is one write that leaves the cursor and its colours as they were, so the command's
    output is not torn. The row is given back while a program reads single keys, as editors and
    other full-screen programs do, and where `text`, which is asked for the line, has none.
    """

    def __init__(self, terminal: int, text: Callable[[], str]) -> None:
        self._terminal = terminal
        self._text = text
        self._size: os.terminal_size | None = None  # for which the row is kept
        self._shown = ""

    def update(self) -> None:
        """Show what is to be shown now, where that or the terminal has changed."""
        with suppress(OSError, termios.error):  # it has been closed
            size = os.get_terminal_size(self._terminal)
            text = self._text()[: size.columns - 1]
            if not text or not self._is_free(size):
                self.hide()
            elif (size, text) != (self._size, self._shown):
                self._show(size, text)

    def hide(self) -> None:
        """Give the row back."""
        if self._size is not None:
            row, self._size, self._shown = self._size.lines, None, ""
            self._write(f"{_SAVE}\x1b[{row};1H\x1b[2K\x1b[r{_RESTORE}")

    def _is_free(self, size: os.terminal_size) -> bool:
        keys = termios.tcgetattr(self._terminal)[3]
        in_front = os.tcgetpgrp(self._terminal) == os.getpgrp()
        return in_front and bool(keys & termios.ICANON) and size.lines >= _LEAST_ROWS

    def _show(self, size: os.terminal_size, text: str) -> None:
        kept = ""
        if self._size != size:
            self.hide()
            kept = f"{_DOWN}{_UP}{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}"
        self._size, self._shown = size, text
        self._write(f"{kept}{_SAVE}\x1b[{size.lines};1H\x1b[m\x1b[7m{text}\x1b[m\x1b[K{_RESTORE}")

    def _write(self, text: str) -> None:
        with suppress(OSError):
            os.write(self._terminal, text.encode())

"""The errors of the board commands."""

import os
import re

_ERRNO = re.compile(r": ([1-9][0-9]{0,2})$")


class BoardError(Exception):
    """A command failed; the message says why, and what to do."""

    exit_code = 1


class UsageError(BoardError):
    """A command lacks an argument, or names something that does not exist."""

    exit_code = 2


class DeviceError(BoardError):
    """An exception of a program on the board.

    `kind` is its type's name, `detail` the rest of its last line; `full` says whether the board's
    file system is full.
    """

    def __init__(self, traceback: str) -> None:
        lines = traceback.strip().splitlines() or ["nothing"]
        self.kind, _, self.detail = lines[-1].partition(": ")
        self.full = "ENOSPC" in self.detail or self.detail == "28"
        super().__init__(
            "there is no room left on the board: remove files of your own"
            if self.full
            else f"the board says: {in_words(lines[-1])}"
        )


def in_words(text: str) -> str:
    """Return a board's message, with an errno number at its end replaced by its text."""
    return _ERRNO.sub(lambda found: ": " + os.strerror(int(found[1])), text)

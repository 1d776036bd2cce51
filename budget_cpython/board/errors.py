"""The errors of the board commands."""


class BoardError(Exception):
    """A command failed; the message says why, and what to do."""

    exit_code = 1


class UsageError(BoardError):
    """A command lacks an argument, or names something that does not exist."""

    exit_code = 2


class DeviceError(BoardError):
    """An exception of a program on the board; `full` says whether its file system is full."""

    def __init__(self, traceback: str) -> None:
        last = (traceback.strip().splitlines() or ["nothing"])[-1]
        self.full = "ENOSPC" in last or last == "OSError: 28"
        super().__init__(
            "there is no room left on the board: remove files of your own"
            if self.full
            else f"the board says: {last}"
        )

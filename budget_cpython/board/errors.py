"""What a board command cannot do, in its user's words."""


class BoardError(Exception):
    """What stopped a command: the value at fault and how to mend it."""

    exit_code = 1


class UsageError(BoardError):
    """A command that says too little, or names what is not there."""

    exit_code = 2


class DeviceError(BoardError):
    """An exception of the program that was run on the board.

    `kind` is its type's name, `detail` the rest of its last line.
    """

    def __init__(self, traceback: str) -> None:
        lines = traceback.strip().splitlines() or ["nothing"]
        self.kind, _, self.detail = lines[-1].partition(": ")
        full = "ENOSPC" in self.detail or self.detail == "28"
        super().__init__(
            "there is no room left on the board: remove files of your own, or deploy with --mpy"
            if full
            else f"the board says: {lines[-1]}"
        )

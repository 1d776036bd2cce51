"""Say where a ledger's file is, and refuse anything else that lies there."""

import os
from contextlib import suppress
from pathlib import Path

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.plain_file import (
    NotPlainError,
    SafePath,
    check_plain,
    make_folder,
    sync_folder,
    write_new,
)

LOG = "-wal"
_BESIDE = ("", LOG, "-shm", "-journal")


class LedgerFile(SafePath):
    """The path of a ledger's file, and what SQLite keeps beside it."""

    def prepare(self) -> None:
        """Check what lies there; if nothing does, make the file, for its owner alone, durably.

        SQLite gives the files that it makes beside it the same mode. Raises `OSError`,
        `LedgerUnavailableError`.
        """
        self.check()
        if not os.path.lexists(self.path):
            folder = os.path.dirname(self.path)
            make_folder(folder)
            with suppress(FileExistsError):
                write_new(self.path, b"")
                sync_folder(folder)
        elif not os.access(self.path, os.R_OK | os.W_OK):
            # SQLite would leave files beside it that may not be written later on either.
            raise LedgerUnavailableError(f"the ledger {self.path!r} may not be written")

    def check(self) -> None:
        """Refuse anything but a plain file with one name, and a path inside the workspace."""
        if self.is_exposed():
            text = f"the ledger {self.path!r} is inside the agent's workspace by now"
            raise LedgerUnavailableError(text)
        for beside in _BESIDE:
            name = self.path + beside
            try:
                check_plain(name, os.lstat(name))
            except FileNotFoundError:
                continue
            except NotPlainError as error:
                raise LedgerUnavailableError(f"the ledger's file {error}") from error

    def identity(self, beside: str = "") -> tuple[int, int] | None:
        """Return what tells the file that lies there from others, `None` where none is seen."""
        try:
            status = os.stat(self.path + beside)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def uri(self, mode: str) -> str:
        """Return the address that SQLite opens, with `mode` `rw` or `ro`."""
        return f"{Path(self.path).as_uri()}?mode={mode}"

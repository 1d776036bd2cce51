"""Say where a ledger's file is, and refuse anything else that lies there."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.plain_file import (
    NotPlainError,
    SafePath,
    check_plain,
    sync_folder,
    write_new,
)

_LOG, _INDEX = "-wal", "-shm"
_BESIDE = ("", _LOG, _INDEX, "-journal")
_LOOKS = 5  # others may be opening and closing the file
_LOOK_S = 0.01


class LedgerFile(SafePath):
    """The path of a ledger's file, and what SQLite keeps beside it.

    With `create`, a file that is missing is made, or filled if it is empty; its folder must exist.
    """

    def __init__(self, path: Any, workspace: Any = None, create: bool = True) -> None:
        super().__init__(path, workspace)
        self._create = create

    def prepare(self, may_be_new: bool) -> None:
        """Check what lies there; if nothing does, make the file, for its owner alone, durably.

        SQLite gives the files that it makes beside it the same mode. Raises `OSError`,
        `LedgerUnavailableError`, and `LedgerCorruptError` for a missing or empty file that there
        was before: others remember it, or what SQLite keeps beside it is left. A log that is
        missing is refused where its index is left.
        """
        self.check()
        exists = os.path.lexists(self.path)
        left = any(os.path.lexists(self.path + beside) for beside in (_LOG, _INDEX))
        size = os.path.getsize(self.path) if exists else 0
        if not size and (left or not may_be_new):
            raise self.corrupt("was removed")
        if not size and not self._create:
            raise LedgerUnavailableError(f"there is no ledger {self.path!r} yet")
        if self._lacks_log():
            raise self.corrupt("has lost its log, and with it what was counted last")
        if size == 1:  # SQLite would take it for an empty one
            raise self.corrupt("is not a ledger, or damaged")
        if not exists:
            folder = os.path.dirname(self.path)
            if not os.path.isdir(folder):
                text = f"the folder of the ledger {self.path!r} does not exist: make it first"
                raise LedgerUnavailableError(text)
            with suppress(FileExistsError):
                write_new(self.path, b"")
                sync_folder(folder)
        elif not os.access(self.path, os.R_OK | os.W_OK):
            # SQLite would leave files beside it that may not be written later on either.
            raise LedgerUnavailableError(f"the ledger {self.path!r} may not be written")

    def _lacks_log(self) -> bool:
        """Tell whether the log's index lies there without the log, which SQLite makes first.

        It removes the index first, too. So if neither changes, somebody else removed the log.
        """
        before = None
        for _ in range(_LOOKS):
            try:
                index = os.stat(self.path + _INDEX)
            except OSError:
                return False
            found = index.st_ino, index.st_ctime_ns
            if before not in (None, found) or os.path.lexists(self.log):
                return False
            before = found
            time.sleep(_LOOK_S)
        return True

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

    @property
    def log(self) -> str:
        """The path of SQLite's log."""
        return self.path + _LOG

    def has_log(self) -> bool:
        """Return whether a log lies beside the file, which SQLite would apply to it."""
        try:
            return os.path.getsize(self.log) > 0
        except OSError:
            return False

    def inode(self) -> str:
        """Return the inode of the file that lies there, nothing where none is seen."""
        try:
            return str(os.stat(self.path).st_ino)
        except OSError:
            return ""

    def corrupt(self, what: str, cause: Exception | None = None) -> LedgerCorruptError:
        """Return the error for a file that is not to be trusted."""
        text = f"the ledger {self.path!r} {what}: stop all programs that use it, and restore it"
        return LedgerCorruptError(f"{text} (docs/operating.md says how)", cause)

    def uri(self, mode: str) -> str:
        """Return the address that SQLite opens, with `mode` `rw` or `ro`."""
        return f"{Path(self.path).as_uri()}?mode={mode}"

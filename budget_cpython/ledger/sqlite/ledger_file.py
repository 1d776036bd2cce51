"""Say where a ledger's file is, and refuse anything else that lies there."""

import os
from contextlib import suppress
from pathlib import Path

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.plain_file import (
    NotPlainError,
    check_plain,
    leads_into,
    make_folder,
    sync_folder,
    write_new,
)

LOG = "-wal"
_BESIDE = ("", LOG, "-shm", "-journal")


class LedgerFile:
    """The path of a ledger's file, made absolute at once, and outside an agent's workspace.

    A path that leads into `workspace`, through links or without, is a `ValueError` now and a
    `LedgerUnavailableError` later on.
    """

    def __init__(
        self, path: "str | os.PathLike[str]", workspace: "str | os.PathLike[str] | None" = None
    ) -> None:
        path = os.fspath(path)
        if not isinstance(path, str) or not os.path.basename(path) or "\0" in path:
            raise ValueError(f"path must name a file, not {path!r}")
        self.path = os.path.join(os.getcwd(), path)
        self._workspace = None if workspace is None else os.path.join(os.getcwd(), workspace)
        if self._is_exposed():
            raise ValueError(f"path {path!r} is inside the agent's workspace {workspace!r}")

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
        if self._is_exposed():
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

    def _is_exposed(self) -> bool:
        return self._workspace is not None and leads_into(self.path, self._workspace)

"""Keep a tracker's state in a file that survives power loss and is safe to find."""

import os

from budget_core.checks import check_count
from budget_core.checksum import decode, encode
from budget_core.errors import StateCorruptError, StoreError
from budget_cpython.file_lock import PathClaim
from budget_cpython.plain_file import (
    leads_into,
    make_folder,
    remove,
    sync_folder,
    what_else,
    write_new,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

MAX_BYTES = 4096  # a state is some hundred bytes: more is not ours to parse

_READ = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class FileBudgetStore:
    """A JSON file with a checksum, replaced durably: what `save` has returned from stays.

    `path` is made absolute at once, and missing parent folders are made. Only the owner may read
    the file, and the folders made for it. `allowance` is how many tokens a day whose file cannot
    be trusted may still use. `workspace` is a folder that an agent writes to: a `path` that leads
    there, through links or without, is a `ValueError` now and a `StoreError` later on. What is not
    a plain file with one name is never read: it is a state that cannot be trusted.

    A save writes `path` + `.tmp` and renames it; a crash may leave that file, never another, and
    the next save removes it. A whole one without a file is the state: only a first save can leave
    that, and counting it never counts too little.

    One store at a time uses a path. From its first `load` or `save` on its process has a lock on
    `path` + `.lock`, a file that stays there, until `close`, the end of a `with` block or of the
    process, or until nobody refers to the store; another process gets a `StoreError` that names
    this one. In one process the newest store takes over, and the one before it gets the error
    when it saves; so does a store that a fork took along. Source: seed 001.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        allowance: int = 0,
        workspace: "str | os.PathLike[str] | None" = None,
    ) -> None:
        path = os.fspath(path)
        if not os.path.basename(path) or "\0" in path:
            raise ValueError(f"path must name a file, not {path!r}")
        self.path = os.path.join(os.getcwd(), path)
        self.allowance = check_count("allowance", allowance)
        self._new = self.path + ".tmp"
        self._claim = PathClaim(self.path)
        self._workspace = None if workspace is None else os.path.join(os.getcwd(), workspace)
        if self._is_exposed():
            raise ValueError(f"path {path!r} is inside the agent's workspace {workspace!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, allowance={self.allowance!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` where no file is.

        Raises `StateCorruptError` for a file that cannot be trusted, `StoreError` for one that
        cannot be read, or that another process is using.
        """
        self._refuse_exposed()
        try:
            _look(self.path)  # beside a device no lock file is made
            make_folder(os.path.dirname(self.path))
            with self._claim.used(reading=True):
                data = self._read(self.path)
                return self._unfinished() if data is None else decode(data)
        except OSError as error:
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error) from error

    def _unfinished(self) -> "dict[str, Any] | None":
        try:
            data = self._read(self._new)
            return None if data is None else decode(data)
        except StateCorruptError:
            return None

    def save(self, state: "dict[str, Any]") -> None:
        """Replace the state for good; `StoreError` where that fails, and the old one stays.

        A store that lost the path to another one writes nothing before it has loaded again. Where
        only the last step fails, the folder's sync, either state may be there after a crash.
        """
        self._refuse_exposed()
        data = encode(state, MAX_BYTES)
        try:
            make_folder(os.path.dirname(self.path))
            with self._claim.used():
                self._keep_unfinished()
                self._replace(data)
        except OSError as error:
            raise StoreError(f"cannot write budget state {self.path!r}: {error}", error) from error

    def clear(self) -> None:
        """Remove the state and anything left of an unfinished save."""
        self._refuse_exposed()
        try:
            make_folder(os.path.dirname(self.path))
            with self._claim.used(reading=True):
                remove(self._new)
                remove(self.path)
        except OSError as error:
            text = f"cannot remove budget state {self.path!r}: {error}"
            raise StoreError(text, error) from error

    def close(self) -> None:
        """Let another process have the path; a later `load` takes it back, if it can be had."""
        self._claim.release()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_exposed(self) -> None:
        if self._is_exposed():
            raise StoreError(f"budget state {self.path!r} is inside the agent's workspace by now")

    def _is_exposed(self) -> bool:
        """Tell whether the path is spelt through, lies in, or leads into the workspace."""
        return self._workspace is not None and leads_into(self.path, self._workspace)

    def _read(self, path: str) -> bytes | None:
        try:
            _look(path)
            file = os.open(path, _READ)
        except FileNotFoundError:
            return None
        try:
            _check_plain(path, os.fstat(file))
            data = b""
            while len(data) <= MAX_BYTES and (piece := os.read(file, MAX_BYTES)):
                data += piece
        finally:
            os.close(file)
        if len(data) > MAX_BYTES:
            raise StateCorruptError(f"stored state is larger than {MAX_BYTES} bytes")
        return data

    def _replace(self, data: bytes) -> None:
        remove(self._new)
        try:
            write_new(self._new, data)
            os.replace(self._new, self.path)
        except BaseException:
            remove(self._new, OSError)
            raise
        sync_folder(os.path.dirname(self.path))

    def _keep_unfinished(self) -> None:
        if not os.path.lexists(self.path) and self._unfinished() is not None:
            os.replace(self._new, self.path)


def _look(path: str) -> None:
    try:
        _check_plain(path, os.lstat(path))
    except FileNotFoundError:
        pass


def _check_plain(path: str, status: os.stat_result) -> None:
    what = what_else(status)
    if what:
        raise StateCorruptError(
            f"budget state {path!r} is {what}, not a plain file with one name: "
            "find out who put it there; the next save puts a new file in its place"
        )

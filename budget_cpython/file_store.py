"""Keep a tracker's state in a file that survives kills and power cuts."""

import os
from contextlib import contextmanager, suppress

from budget_core.checks import check_count
from budget_core.checksum import decode, encode
from budget_core.errors import StateCorruptError, StoreError
from budget_cpython.file_lock import FileLock
from budget_cpython.plain_file import NotPlainError, SafePath, read_plain, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

MAX_BYTES = 4096  # a state has some hundred bytes


class FileBudgetStore:
    """A JSON file with a checksum, replaced durably: a state is safe once `save` has returned.

    `path` is made absolute at once; missing folders are made. File and folders are for their owner
    alone. `allowance` is how many tokens a day whose file cannot be trusted may still use.
    `workspace` is a folder that an agent writes to: a `path` that leads there, through links or
    not, is a `ValueError` here and a `StoreError` later. Only a plain file with one name is read.

    The first `load`, `save` or `clear` locks `path` + `.lock` until `close`, the end of a `with`
    block or of the process, or until nothing refers to the store. Another store on the path gets
    a `StoreError` until then. A closed store gets one too, and so does, in a forked process, the
    copy of a store that its parent had used.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        allowance: int = 0,
        workspace: "str | os.PathLike[str] | None" = None,
    ) -> None:
        self._safe_path = SafePath(path, workspace)
        self.path = self._safe_path.path
        self.allowance = check_count("allowance", allowance)
        self._lock = FileLock(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, allowance={self.allowance!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` if there is no file.

        Raises `StateCorruptError` if the file cannot be trusted, `StoreError` if it cannot be read
        or another store uses it.
        """
        with self._used("read"):
            try:
                data, _ = read_plain(self.path, MAX_BYTES + 1)
            except FileNotFoundError:
                return None
            except NotPlainError as error:
                raise StateCorruptError(f"{error}; the next save replaces it") from error
            if len(data) > MAX_BYTES:
                raise StateCorruptError(f"stored state is larger than {MAX_BYTES} bytes")
            return decode(data)

    def save(self, state: "dict[str, Any]") -> None:
        """Replace the state durably; `StoreError` if that fails, and then the old one stays.

        Where only the last step fails, the folder's sync, a crash may leave either state.
        """
        data = encode(state, MAX_BYTES)
        with self._used("write"):
            replace_file(self.path, data)

    def clear(self) -> None:
        """Remove the state."""
        with self._used("remove"), suppress(FileNotFoundError):
            os.unlink(self.path)

    def close(self) -> None:
        """Let another store have the path; this one is of no further use."""
        self._lock.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _used(self, verb: str) -> "Iterator[None]":
        if self._safe_path.is_exposed():
            raise StoreError(f"budget state {self.path!r} is inside the agent's workspace by now")
        try:
            with self._lock.held():
                yield
        except OSError as error:
            raise StoreError(f"cannot {verb} budget state {self.path!r}: {error}", error) from error

"""A lock on a path: one store at a time uses it."""

import os
from contextlib import contextmanager, suppress
from threading import Lock

from budget_core.errors import StoreError
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.plain_file import make_folder, open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    from fcntl import LOCK_EX, LOCK_NB, flock

    def _lock(file: int) -> None:
        flock(file, LOCK_EX | LOCK_NB)

except ImportError:  # Windows
    from msvcrt import LK_NBLCK, locking  # type: ignore[attr-defined]

    def _lock(file: int) -> None:
        locking(file, LK_NBLCK, 1)


class FileLock:
    """A lock on `path` + `.lock`, a file that names the owner's process and is never removed.

    It is taken by the first `held`, and kept until `close`, until the process ends or until nothing
    refers to this object. A fork closes it in the child.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None  # -1 once it is closed
        self._busy = Lock()
        begin_again_in_children(self)

    @contextmanager
    def held(self) -> "Iterator[None]":
        """Hold the lock, and keep other threads out, during one operation.

        Raises `StoreError` if another store has the lock, or this one was closed, and `OSError`.
        """
        with self._busy:
            if self._file is None:
                self._file = self._take()
            if self._file < 0:
                raise StoreError(f"the store on {self._path!r} was closed, here or by a fork")
            yield

    def _take(self) -> int:
        make_folder(os.path.dirname(self._path))
        file = open_plain(self._path + ".lock", os.O_RDWR | os.O_CREAT)
        try:
            owner = _read_owner(file, self._path)
            _lock(file)
        except (OSError, StoreError) as error:
            os.close(file)
            if not isinstance(error, (BlockingIOError, PermissionError)):
                raise
            text = f"{self._path!r} is in use by {owner}, and one store at a time may use it"
            raise StoreError(text, error) from error
        with suppress(OSError):  # where the disk is full, others see no owner
            os.ftruncate(file, 0)
            os.write(file, b"%d\n" % os.getpid())
        return file

    def close(self) -> None:
        """Let another store have the path."""
        with self._busy:
            file, self._file = self._file, -1
            if file is not None and file >= 0:
                os.close(file)

    __del__ = close

    def begin_again(self) -> None:
        """Close a forked process's copy, so that the lock ends with the process that took it."""
        self._busy = Lock()  # another thread of the parent may have held it
        if self._file is not None:
            self.close()


def _read_owner(file: int, path: str) -> str:
    """Return the holder of the lock; raise `StoreError` for a file that holds something else."""
    said = b""
    with suppress(OSError):  # Windows reads nothing that is locked
        said = os.read(file, 33).strip(b"\0\n")
        os.lseek(file, 0, os.SEEK_SET)
    if said and not said.isdigit():
        raise StoreError(f"{path + '.lock'!r} is not a lock: it is left alone, use another path")
    return f"process {int(said)}" if said else "another process"

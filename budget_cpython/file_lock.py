"""Let one process at a time use a path, and in it the store that came last."""

import os
import weakref
from contextlib import contextmanager, suppress
from threading import Lock

from budget_core.errors import StoreError
from budget_cpython.plain_file import give_to_owner, what_else

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

try:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

    def _seize(file: int) -> None:
        flock(file, LOCK_EX | LOCK_NB)

    def _let_go(file: int) -> None:
        flock(file, LOCK_UN)

except ImportError:  # Windows
    from msvcrt import LK_NBLCK, LK_UNLCK, locking  # type: ignore[attr-defined]

    _BEYOND = 1 << 30  # what is locked there cannot be read, and the process id is to be

    def _seize(file: int) -> None:
        os.lseek(file, _BEYOND, os.SEEK_SET)
        locking(file, LK_NBLCK, 1)

    def _let_go(file: int) -> None:
        os.lseek(file, _BEYOND, os.SEEK_SET)
        locking(file, LK_UNLCK, 1)


_OPEN = os.O_RDWR | os.O_CREAT
_OPEN |= sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_BINARY"))
_BUSY = "its lock was not to be had"
_NEWER = "another store of this process was opened on it"
_FORKED = "it is in use by process {}, from which this one was forked"
_REPLACED = "its lock file was replaced by another one"
_CLOSED = "the store was closed"


class PathClaim:
    """One store's use of `path`, for as long as its process holds the lock on `path` + `.lock`.

    Processes are kept apart by the lock, the stores of one process by the newest taking over from
    the one before. A store that lost its claim may have missed what others wrote: it gets the path
    back for a reading only, and then writes again.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: _LockFile | None = None
        self._why_lost = ""

    @contextmanager
    def used(self, reading: bool = False) -> "Iterator[None]":
        """Keep others from the path during one operation; `StoreError` says why that cannot be."""
        while True:
            self._notice()
            if self._file is None and (reading or not self._why_lost):
                self._take()
            file = self._file
            if file is not None:
                with file.busy:
                    if self._file is file:
                        yield
                        return
            if not reading:
                raise StoreError(
                    f"budget state {self._path!r} was not written, as others may have written to "
                    f"it: {self._why_lost}. Load it first; a tracker on it must be made anew"
                )

    def release(self) -> None:
        """Let others have the path."""
        self._notice()
        if self._file is not None:
            self._end(self._file, _CLOSED)

    def _end(self, file: "_LockFile", why: str) -> None:
        with _guard, file.busy:
            if self._file is file:
                file.close()
                self._lose(why)

    def _lose(self, why: str) -> None:
        self._file, self._why_lost = None, why

    def _notice(self) -> None:
        """Look whether the lock is still this process's, and still where others look for it."""
        file = self._file
        if file is None:
            return
        if file.pid != os.getpid():
            self._lose(_FORKED.format(file.pid))
        elif not file.lies_there():
            # Whoever used the path since then has left a new lock file.
            self._end(file, _REPLACED if os.path.lexists(self._path + ".lock") else "")

    def _take(self) -> None:
        with _guard:
            try:
                file = _lock(self._path)
            except StoreError:
                self._lose(_BUSY)
                raise
            except OSError as error:
                text = f"cannot lock budget state {self._path!r}: {error}"
                raise StoreError(text, error) from error
            with file.busy:
                before = file.user()
                if before is not None and before is not self:
                    before._lose(_NEWER)
                file.user = weakref.ref(self)
                self._file, self._why_lost = file, ""


class _LockFile:
    """A lock file that this process has locked; it is unlocked when nobody refers to it."""

    def __init__(self, path: str, file: int) -> None:
        self.pid = os.getpid()
        self.busy = Lock()
        self.user: Callable[[], PathClaim | None] = _nobody
        self._path = path
        self._file = file
        self._status = os.fstat(file)

    def lies_there(self) -> bool:
        try:
            return self._file >= 0 and os.path.samestat(os.lstat(self._path), self._status)
        except OSError:
            return False

    def close(self) -> None:
        file, self._file = self._file, -1
        if file < 0:
            return
        try:
            if self.pid == os.getpid():
                _let_go(file)  # closing is not enough while a process started from here has it
        finally:
            os.close(file)

    __del__ = close


_guard = Lock()
_files: "weakref.WeakValueDictionary[tuple[int, int], _LockFile]" = weakref.WeakValueDictionary()


def _nobody() -> None:
    """Return the user of a lock file that has none yet."""


def _lock(path: str) -> _LockFile:
    """Return the lock file beside `path`, locked, or as this process has it already."""
    name = path + ".lock"
    while True:
        with suppress(FileNotFoundError):
            status = os.lstat(name)
            _refuse_other(path, name, status)
            found = _files.get(_place(status))
            if found is not None and found.lies_there():
                return found
        made = _locked(path, name)
        if made.lies_there():  # it may have been removed before it was locked
            return made
        made.close()


def _locked(path: str, name: str) -> _LockFile:
    file = os.open(name, _OPEN, 0o600)
    try:
        _refuse_other(path, name, os.fstat(file))
        if hasattr(os, "fchmod"):
            give_to_owner(os.fchmod, file, 0o600)
        _seize(file)
    except (BlockingIOError, PermissionError) as error:
        text = f"budget state {path!r} is in use by {_holder(file)}: one process at a time uses "
        text += "it. Give each a path of its own, or one ledger to all (SqliteLedger)"
        os.close(file)
        raise StoreError(text, error) from error
    except BaseException:
        os.close(file)
        raise
    made = _LockFile(name, file)
    _files[_place(os.fstat(file))] = made
    with suppress(OSError):  # the disk may be full: nothing but what others are told depends on it
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, b"%d\n" % made.pid)
    return made


def _refuse_other(path: str, name: str, status: os.stat_result) -> None:
    what = what_else(status)
    if what:
        raise StoreError(
            f"cannot lock budget state {path!r}: {name!r} is {what}, not a plain file with one "
            "name: find out who put it there, and remove it"
        )


def _place(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _holder(file: int) -> str:
    with suppress(OSError, ValueError):
        os.lseek(file, 0, os.SEEK_SET)
        return f"process {int(os.read(file, 32))}"
    return "another process"


def _leave_to_parent() -> None:
    """Close a forked process's copies, so that the lock ends with the process that took it."""
    global _guard  # another thread may have held it when the process was forked
    _guard = Lock()
    for file in list(_files.values()):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)

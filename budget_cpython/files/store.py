"""Keep a tracker's state in a file that survives kills and power cuts."""

import os
from contextlib import contextmanager, suppress

from budget_core.checks import check_count
from budget_core.checksum import decode, encode, framed
from budget_core.errors import StateCorruptError, StoreError
from budget_cpython.files.lock import FileLock
from budget_cpython.plain_file import NotPlainError, SafePath, read_plain, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

MAX_BYTES = 4096  # a state has some hundred bytes
_NAME = "microbudget"
_HEAD = f'["????????",{{"{_NAME}":1'.encode()  # of every state: its checksum, and its version
_DIGITS = b"0123456789abcdef"


class FileBudgetStore:
    """A JSON file with a checksum, replaced durably: a state is safe once `save` has returned.

    `path` is made absolute at once; missing folders are made. File and folders are for their owner
    alone. `allowance` is how many tokens a day whose file is damaged may still use. `workspace` is
    a folder that an agent writes to: a `path` that leads there, through links or not, is a
    `ValueError` here and a `StoreError` later.

    A file that is not a state of a store is never written or removed, and gives a `StoreError` that
    names it; so does a link, a device, a FIFO, a folder, or a file with two names. A damaged state
    is copied to `path` + `.damaged`, the newest one, before anything replaces it.

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

        Raises `StateCorruptError` if the state is damaged, `StoreError` if the file cannot be read,
        is not a state, or another store uses it.
        """
        with self._used("read"):
            data = _read_state(self.path)
            if data is None:
                return None
            try:
                state = decode(data)
            except StateCorruptError as error:
                raise StateCorruptError(
                    f"{self.path!r}: {error}{self._keep(data)}. The day counts as spent: "
                    "to begin it again, stop the program and remove the file"
                ) from error
            state.pop(_NAME, None)
            return state

    def save(self, state: "dict[str, Any]") -> None:
        """Replace the state durably; `StoreError` if that fails, and then the old one stays.

        Where only the last step fails, the folder's sync, a crash may leave either state.
        """
        data = encode({_NAME: 1, **state}, MAX_BYTES)
        with self._used("write"):
            replace_file(self.path, data)

    def clear(self) -> None:
        """Remove the state."""
        with self._used("remove"), suppress(FileNotFoundError):
            os.unlink(self.path)

    def _keep(self, data: bytes) -> str:
        """Copy a damaged state beside it; return where it is, as the end of a sentence."""
        kept = self.path + ".damaged"
        try:
            if data and _read_state(kept) != data:
                replace_file(kept, data)
        except (OSError, StoreError) as error:
            return f"; it could not be copied: {error}"
        return f"; a copy is in {kept!r}" if data else ""

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
            _read_state(self.path)  # not even a lock is made beside a file of others
            with self._lock.held():
                yield
        except OSError as error:
            raise StoreError(f"cannot {verb} budget state {self.path!r}: {error}", error) from error


def _read_state(path: str) -> bytes | None:
    """Return a state's bytes, damaged or not, or `None`; `StoreError` for another file, `OSError`.

    A state begins as each does, but for one damaged byte at most, or is shorter than that, or
    empty.
    """
    try:
        data, _ = read_plain(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotPlainError as error:
        raise StoreError(f"{error}; it is left alone", error) from error
    pairs = zip(data, _HEAD, strict=False)
    wrong = sum(is_ not in (_DIGITS if must == ord("?") else (must,)) for is_, must in pairs)
    damage = len(data) > len(_HEAD) and data != framed(data[12:-1])
    if len(data) > MAX_BYTES or wrong > damage:
        raise StoreError(
            f"{path!r} is not a budget state, or one of another version: it is left alone; "
            "move it away or use another path"
        )
    return data

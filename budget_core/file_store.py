"""Keep a tracker's state in a JSON file, on littlefs, FAT and POSIX."""

import binascii
import errno
import os

from budget_core.errors import StateCorruptError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

MAX_BYTES = 4096  # a state is some hundred bytes: more is not ours to parse

_HEAD = b'{"crc32":"'
_MIDDLE = b'","state":'


def encode(state: "dict[str, Any]") -> bytes:
    """Return `state` as JSON, the CRC-32 of its text in front: no part passes for the whole."""
    import json  # late: on CPython it takes as long as the rest of a tracker

    text = json.dumps(state).encode()
    if len(text) > MAX_BYTES - 64:
        raise StoreError(f"a state of {len(text)} bytes is larger than a state may be")
    return _framed(text)


def decode(data: bytes) -> "dict[str, Any]":
    """Return the state in `data`; `StateCorruptError` says what is wrong with anything else."""
    start = len(_HEAD) + 8 + len(_MIDDLE)
    text = data[start:-1]
    if len(data) > MAX_BYTES:
        raise StateCorruptError(f"stored state is larger than {MAX_BYTES} bytes")
    if data != _framed(text):
        raise StateCorruptError("stored state is damaged or was edited: its CRC does not match")
    import json  # late: on CPython it takes as long as the rest of a tracker

    try:
        state = json.loads(text)
    except (ValueError, RuntimeError) as error:
        raise StateCorruptError("stored state is not JSON", error)
    if not isinstance(state, dict):
        raise StateCorruptError("stored state is not a JSON object")
    return state


def _framed(text: bytes) -> bytes:
    return _HEAD + b"%08x" % (binascii.crc32(text) & 0xFFFFFFFF) + _MIDDLE + text + b"}"


class FileBudgetStore:
    """A JSON file with a checksum, replaced whole at each save; made for chips.

    Missing parent folders are made. `on_corrupt` says what a file that exists but cannot be trusted
    stands for: `"deny"`, a spent window, or `"fresh"`, none at all. A new state is written beside
    the old one and renamed over it: littlefs and POSIX do that at once, FAT removes the old file
    first, so a whole new file without an old one is taken for the state. Source: seed 001.
    """

    def __init__(self, path: str, on_corrupt: str = "deny") -> None:
        if on_corrupt not in ("deny", "fresh"):
            raise ValueError(f"on_corrupt must be 'deny' or 'fresh', not {on_corrupt!r}")
        self.path = str(path)
        self.on_corrupt = on_corrupt
        self._new = self.path + ".tmp"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, on_corrupt={self.on_corrupt!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` where no file is or `on_corrupt` is `"fresh"`.

        Raises `StateCorruptError` for a file that cannot be trusted, `StoreError` for one that
        cannot be read.
        """
        try:
            data = self._read(self.path)
            if data is None:
                return self._unfinished()
            return decode(data)
        except StateCorruptError:
            if self.on_corrupt == "fresh":
                return None
            raise
        except OSError as error:
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error)

    def _unfinished(self) -> "dict[str, Any] | None":
        data = self._read(self._new)
        try:
            return None if data is None else decode(data)
        except StateCorruptError:
            return None

    def save(self, state: "dict[str, Any]") -> None:
        """Replace the state; `StoreError` where that fails, and the old one stays."""
        try:
            self._make_folders()
            data = encode(state)
            self._keep_unfinished()
            self._replace(data)
        except OSError as error:
            raise StoreError(f"cannot write budget state {self.path!r}: {error}", error)

    def clear(self) -> None:
        """Remove the state and anything left of an unfinished save."""
        for path in (self._new, self.path):
            try:
                os.remove(path)
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise StoreError(f"cannot remove budget state {path!r}: {error}", error)

    def _read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            # FAT says of a folder in the file's place that nothing is there.
            if error.errno != errno.ENOENT or _exists(path):
                raise
            return None

    def _keep_unfinished(self) -> None:
        """Finish the save that a crash on FAT left half done: its only copy must not be lost."""
        if not _exists(self.path) and self._unfinished() is not None:
            os.rename(self._new, self.path)

    def _replace(self, data: bytes) -> None:
        with open(self._new, "wb") as file:
            file.write(data)
            file.flush()
        os.rename(self._new, self.path)
        sync = getattr(os, "sync", None)
        if sync is not None:
            sync()

    def _make_folders(self) -> None:
        end = self.path.find("/", 1)
        while end > 0:
            try:
                os.mkdir(self.path[:end])
            except OSError as error:
                if error.errno != errno.EEXIST:
                    raise
            end = self.path.find("/", end + 1)


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except OSError:
        return False
    return True

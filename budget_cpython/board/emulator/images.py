"""The files for a board's flash and ROMFS partition: made, checked, and locked."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

BLOCK_SIZES = {"littlefs": 4096, "fat": 512}
_KINDS = {"littlefs": "VfsLfs2", "fat": "VfsFat"}
_LEAST_FLASH = 32 << 10
_ROMFS = b"\xd2\xcd\x31"
_CHUNK = 1 << 20
_FORMAT = """
import vfs
class Image:
    def readblocks(self, block, buffer, offset=0):
        file.seek(block * {block_size} + offset)
        file.readinto(buffer)
    def writeblocks(self, block, buffer, offset=0):
        file.seek(block * {block_size} + offset)
        file.write(buffer)
    def ioctl(self, operation, argument):
        if operation == 6:
            self.writeblocks(argument, b"\\xff" * {block_size})
        return dict([(4, {blocks}), (5, {block_size})]).get(operation, 0)
with open({path!r}, "r+b") as file:
    vfs.{kind}.mkfs(Image())
"""


def check_size(size: int, filesystem: str, what: str) -> None:
    """Raise `ValueError` for a size that does not fit a flash with this file system."""
    block_size = BLOCK_SIZES[filesystem]
    if size < _LEAST_FLASH or size % block_size:
        raise ValueError(
            f"{what} has {size} bytes, but a flash with {filesystem} has {_LEAST_FLASH} or more, "
            f"a multiple of {block_size}: name an image; a file that is not there is made"
        )


class LockedFile:
    """A file, made if there is none, that one board uses at a time.

    Raises `ValueError` if it is not a regular file, `RuntimeError` if another board uses it.
    """

    def __init__(self, path: Path) -> None:
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent} for {path.name}: make it first")
        self.path = path
        self._file = _lock(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def prepare_flash(self, size: int, filesystem: str, micropython: str) -> None:
        """Check its size; format it if it is empty, or all 0xFF."""
        found = os.fstat(self._file).st_size
        check_size(found or size, filesystem, str(self.path))
        if not found or self._is_blank():
            self._replace(found or size, partial(_format, filesystem, micropython))

    def prepare_romfs(self, size: int) -> None:
        """Check that it contains an image or is blank; make it blank if it is empty."""
        if not os.fstat(self._file).st_size:
            self._replace(size, lambda path: None)
        if os.pread(self._file, len(_ROMFS), 0) not in (_ROMFS, b"\xff" * len(_ROMFS)):
            raise ValueError(
                f"{self.path} is neither a ROMFS image nor blank: name another "
                "file; one that is not there is made"
            )

    def _is_blank(self) -> bool:
        start = 0
        while chunk := os.pread(self._file, _CHUNK, start):
            if chunk.count(0xFF) != len(chunk):
                return False
            start += len(chunk)
        return True

    def _replace(self, size: int, prepare: Callable[[Path], None]) -> None:
        """Replace the file by a prepared one, atomically."""
        with tempfile.TemporaryDirectory(
            dir=self.path.parent, prefix=".microbudget-board-"
        ) as name:
            new = Path(name, self.path.name)
            new.write_bytes(b"\xff" * size)
            prepare(new)
            file = _lock(new)
            new.replace(self.path)
            os.close(self._file)
            self._file = file


def _lock(path: Path) -> int:
    """Return the descriptor of a locked file, which is still the one at the path."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file: name another, or a new one")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(file)):
            raise BlockingIOError
    except BlockingIOError:
        os.close(file)
        raise RuntimeError(
            f"{path} is in use by another board: turn that one off, or name another file"
        ) from None
    return file


def _format(filesystem: str, micropython: str, path: Path) -> None:
    block_size = BLOCK_SIZES[filesystem]
    program = _FORMAT.format(
        path=str(path),
        kind=_KINDS[filesystem],
        block_size=block_size,
        blocks=path.stat().st_size // block_size,
    )
    run = subprocess.run(  # noqa: S603 - the user's own MicroPython
        [micropython, "-c", program], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(
            f"{micropython} cannot format a flash with {filesystem}: "
            f"{(run.stdout + run.stderr).strip() or run.returncode}"
        )

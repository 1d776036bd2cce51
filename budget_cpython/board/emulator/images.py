"""The files that are a board's flash and its ROMFS partition: made, checked, and locked."""

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
    """Raise `ValueError` for a size that no flash with this file system has."""
    block_size = BLOCK_SIZES[filesystem]
    if size < _LEAST_FLASH or size % block_size:
        raise ValueError(
            f"{what} has {size} bytes, but a flash with {filesystem} has {_LEAST_FLASH} or more, "
            f"a multiple of {block_size}: name an image; a file that is not there is made"
        )


class LockedFile:
    """A file that one board has to itself, made where there is none.

    Raises `ValueError` for what is no regular file, `RuntimeError` where another board has it.
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
        """Check that its size is a flash's; format it if it is empty, or 0xFF throughout."""
        found = os.fstat(self._file).st_size
        check_size(found or size, filesystem, str(self.path))
        if not found or self._is_blank():
            self._replace(found or size, partial(_format, filesystem, micropython))

    def prepare_romfs(self, size: int) -> None:
        """Check that it holds an image, or is blank; make it so if it is empty."""
        if not os.fstat(self._file).st_size:
            self._replace(size, lambda path: None)
        if os.pread(self._file, len(_ROMFS), 0) not in (_ROMFS, b"\xff" * len(_ROMFS)):
            raise ValueError(
                f"{self.path} is no ROMFS partition, neither an image nor blank: name another "
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
        """Put a prepared file in its place at once: none is ever found half prepared."""
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
    """Return a descriptor of a file that is locked, and is not replaced by another since."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file: name another; one that is not there is made")
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

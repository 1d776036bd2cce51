"""The files for a board's flash and ROMFS partition: made, checked, and locked."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK_SIZES = {"littlefs": 4096, "fat": 512}
_KINDS = {"littlefs": "VfsLfs2", "fat": "VfsFat"}
_LEAST_FLASH = 32 << 10
_ROMFS = b"\xd2\xcd\x31"
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Make a file, if there is none, that one board uses at a time.

    Raises `ValueError` if it is not a regular file, `RuntimeError` if another board uses it.
    """
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for {path.name}: make it first")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file: name another, or a new one")
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"{path} is in use by another board: turn that one off, or name another file"
            ) from None
        yield


def prepare_flash(path: Path, size: int, filesystem: str, micropython: str) -> None:
    """Check the size of an image; format it if it is empty, or all 0xFF."""
    found = path.read_bytes()
    size = len(found) or size
    block_size = BLOCK_SIZES[filesystem]
    if size < _LEAST_FLASH or size % block_size:
        raise ValueError(
            f"{path} has {size} bytes, but a flash with {filesystem} has {_LEAST_FLASH} or more, "
            f"a multiple of {block_size}: name an image; a file that is not there is made"
        )
    if found.count(0xFF) < len(found):
        return
    path.write_bytes(b"\xff" * size)
    program = _FORMAT.format(
        path=str(path), kind=_KINDS[filesystem], block_size=block_size, blocks=size // block_size
    )
    run = subprocess.run(  # noqa: S603 - the user's own MicroPython
        [micropython, "-c", program], capture_output=True, text=True, check=False
    )
    if run.returncode:
        os.truncate(path, 0)
        raise RuntimeError(
            f"{micropython} cannot format a flash with {filesystem}: "
            f"{(run.stdout + run.stderr).strip() or run.returncode}"
        )


def prepare_romfs(path: Path, size: int) -> None:
    """Check that a file has an image or is blank; make it blank if it is empty."""
    if not path.stat().st_size:
        path.write_bytes(b"\xff" * size)
    if path.read_bytes()[: len(_ROMFS)] not in (_ROMFS, b"\xff" * len(_ROMFS)):
        raise ValueError(
            f"{path} is neither a ROMFS image nor blank: name another file; one that is not there "
            "is made"
        )

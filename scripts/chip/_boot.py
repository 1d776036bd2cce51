"""Mount the chip's file system, and make it the first time; ROMFS is mounted already."""

import uctypes
import vfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK = 4096
BLOCKS = 512


class Flash:
    """Two megabytes of memory as a block device."""

    def __init__(self) -> None:
        self.memory = memoryview(uctypes.bytearray_at(0x20000000, BLOCK * BLOCKS))

    def readblocks(self, block: int, buffer: "Any", offset: int = 0) -> None:
        """Fill the buffer from a place in a block on."""
        start = block * BLOCK + offset
        buffer[:] = self.memory[start : start + len(buffer)]

    def writeblocks(self, block: int, buffer: "Any", offset: int = 0) -> None:
        """Write to a place in a block, and on."""
        start = block * BLOCK + offset
        self.memory[start : start + len(buffer)] = buffer

    def ioctl(self, operation: int, argument: int) -> int:
        """Tell how many blocks there are and how large; what else is asked for is done."""
        return {4: BLOCKS, 5: BLOCK}.get(operation, 0)


flash = Flash()
try:
    files = vfs.VfsLfs2(flash, progsize=256)
except OSError:
    vfs.VfsLfs2.mkfs(flash, progsize=256)
    files = vfs.VfsLfs2(flash, progsize=256)
vfs.mount(files, "/")

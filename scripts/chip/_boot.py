"""Mount the chip's file system, which is made the first time; ROMFS is mounted already."""

import uctypes
import vfs


class Flash:
    """Two megabytes of memory, in blocks of 4 KiB, as a block device."""

    def __init__(self):
        self.memory = memoryview(uctypes.bytearray_at(0x20000000, 0x200000))

    def readblocks(self, block, buffer, offset=0):
        start = block * 4096 + offset
        buffer[:] = self.memory[start : start + len(buffer)]

    def writeblocks(self, block, buffer, offset=0):
        start = block * 4096 + offset
        self.memory[start : start + len(buffer)] = buffer

    def ioctl(self, operation, argument):
        return {4: 512, 5: 4096}.get(operation, 0)


flash = Flash()
try:
    files = vfs.VfsLfs2(flash, progsize=256)
except OSError:
    vfs.VfsLfs2.mkfs(flash, progsize=256)
    files = vfs.VfsLfs2(flash, progsize=256)
vfs.mount(files, "/")

"""Flash in a file of the host, mapped into memory; its power can be cut."""
# mypy: ignore-errors

import ffi
from micropython import const

LIBC = ffi.open(None)
COPY = LIBC.func("p", "memcpy", "ppL")
FILL = LIBC.func("p", "memset", "piL")
WRITE = LIBC.func("i", "write", "ipL")
EXIT = LIBC.func("v", "_exit", "i")
_POWER_CUT = const(13)


class Flash:
    """A block device. Every block written or erased is an operation, counted in `cells.done`.

    When `cells.limit` are done, if it is not 0, the process ends at once, with nothing flushed.
    """

    def __init__(self, start, size, block_size, cells):
        self.start = start
        self.size = size
        self.block_size = block_size
        self.cells = cells

    def readblocks(self, block, buffer, offset=0):
        COPY(buffer, self.start + block * self.block_size + offset, len(buffer))

    def writeblocks(self, block, buffer, offset=0):
        start = self.start + block * self.block_size + offset
        size = len(buffer)
        blocks = (size + self.block_size - 1) // self.block_size
        if self.cells.limit:
            size = min(size, (self.cells.limit - self.cells.done) * self.block_size)
        COPY(start, buffer, size)
        self.count(blocks)

    def ioctl(self, operation, argument):
        if operation == 4:
            return self.size // self.block_size
        if operation == 5:
            return self.block_size
        if operation == 6:
            FILL(self.start + argument * self.block_size, 0xFF, self.block_size)
            self.count(1)
        return 0

    def count(self, operations):
        """Count operations; cut the power when the last is done."""
        cells = self.cells
        cells.done += operations
        if cells.limit and cells.done >= cells.limit:
            EXIT(_POWER_CUT)

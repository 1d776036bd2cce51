"""A flash chip in memory that notes every block operation, under real littlefs and FAT code.

What a cut of the power leaves is worked out from the notes: the operations before it, and of the
one it hit what a fault says. `LOST`: nothing of it. `TORN`: the first bytes, the rest as it was.
`BROKEN`: the first bytes, the rest erased. `ERASED`: the sector erased, nothing written. Nothing
after it ever happened, whatever the program still tried.

CPython has neither file system: `KINDS` is empty there.
"""

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Operation = tuple[int, int, bytes | None]
    Image = dict[int, bytes]

try:
    VFS: "Any" = __import__("vfs")
except ImportError:
    VFS = None

EIO = 5
ROOT = "/chip"
LOST, TORN, BROKEN, ERASED = FAULTS = ("lost", "torn", "broken", "erased")
TEAR = 64  # in the middle of a slot, and of a folder with one file
_ALL = {
    "littlefs 32": ("VfsLfs2", 4096, 32, {"progsize": 32}),
    "littlefs 256": ("VfsLfs2", 4096, 32, {"progsize": 256}),
    "FAT 512": ("VfsFat", 512, 128, {}),
    "FAT 4096": ("VfsFat", 4096, 128, {}),
}
KINDS = [kind for kind in sorted(_ALL) if hasattr(VFS, _ALL[kind][0])]


class Flash:
    """A block device with a file system, mounted at `ROOT` inside its `with` block.

    `kind` is one of `KINDS`: the file system and its programme size, or its sectors' size. `image`
    is what an earlier one held, by block; without it the chip is formatted. `note` is kept beside
    every operation noted. `erases` and `programmes` count by block. After `left` operations that
    change the chip the next fail with EIO. What is written to a `worn` block does not stay. After
    the block nothing reaches the chip any more.
    """

    def __init__(self, kind: str, image: "Image | None" = None) -> None:
        name, self.size, self.blocks, self._options = _ALL[kind]
        self._file_system = getattr(VFS, name)
        self._blank = b"\xff" * self.size
        self.image: Image = {} if image is None else dict(image)
        self.mounted = True
        self.left = 1 << 30
        self.worn = -1
        self.note: Any = None
        self._log: list[tuple[Operation, Any]] | None = None
        self.erases = [0] * self.blocks
        self.programmes = [0] * self.blocks
        if image is None:
            self._file_system.mkfs(self, **self._options)

    def __enter__(self) -> "Flash":
        self.mounted = True
        VFS.mount(self._file_system(self, **self._options), ROOT)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            VFS.umount(ROOT)
        except OSError:
            pass
        self.mounted = False
        if error[0] is not None or self.left <= 0:
            gc.collect()  # files left open are closed now: nothing may reach the chip

    def noted(self) -> "list[tuple[Operation, Any]]":
        """Return a list to which every operation from now on is added."""
        self._log = []
        return self._log

    def readblocks(self, block: int, buffer: "Any", offset: int = 0) -> None:
        """Fill the buffer from a block on, which may reach into the next ones."""
        place = 0 if self.mounted else len(buffer)
        while place < len(buffer):
            part = self.image.get(block, self._blank)[offset : offset + len(buffer) - place]
            buffer[place : place + len(part)] = part
            place += len(part)
            block, offset = block + 1, 0

    def writeblocks(self, block: int, buffer: "Any", offset: int | None = None) -> int:
        """Programme part of a block that was erased, or, without an offset, whole sectors."""
        if not self.mounted:
            return 0
        if self.left <= 0:  # before anything takes memory: a finaliser may have none
            return -EIO
        data = bytes(buffer)
        if offset is not None:
            return self._do((block, offset, data))
        for place in range(0, len(data), self.size):
            if self._do((block + place // self.size, 0, data[place : place + self.size])):
                return -EIO
        return 0

    def ioctl(self, operation: int, argument: int) -> int:
        """Tell how many blocks there are and how large, or erase one."""
        if operation == 4:
            return self.blocks
        if operation == 5:
            return self.size
        if operation == 6:
            return self._do((argument, 0, None)) if self.mounted else 0
        return 0

    def _do(self, operation: "Operation") -> int:
        if self.left <= 0:
            return -EIO
        self.left -= 1
        if operation[0] == self.worn:
            return 0
        if self._log is not None:
            self._log.append((operation, self.note))
        apply(self.image, operation, self.size)
        block, _, data = operation
        if data is not None:
            self.programmes[block] += 1
        if data is None or len(data) == self.size:
            self.erases[block] += 1
        return 0


def apply(image: "Image", operation: "Operation", size: int) -> None:
    """Do one operation to an image."""
    block, offset, data = operation
    if data is None:
        image[block] = b"\xff" * size
        return
    old = image.get(block) or b"\xff" * size
    image[block] = old[:offset] + data + old[offset + len(data) :]


def cut_short(
    image: "Image", operation: "Operation", fault: str, size: int, tear: int = TEAR
) -> None:
    """Do to an image what is left of an operation that a cut of the power hit after `tear` bytes.

    An erase that is torn has erased half of its block.
    """
    block, offset, data = operation
    if fault == LOST:
        return
    if data is None:
        apply(image, (block, 0, b"\xff" * (size if fault == ERASED else size // 2)), size)
        return
    if fault != TORN:
        apply(image, (block, offset, b"\xff" * len(data)), size)
    if fault != ERASED:
        apply(image, (block, offset, data[: min(tear, len(data) // 2)]), size)


def faults_of(kind: str) -> "tuple[str, ...]":
    """Return the faults that differ: what littlefs programmes was erased before."""
    return FAULTS if kind.startswith("FAT") else (LOST, TORN, ERASED)


def spoils(kind: str, fault: str) -> bool:
    """Tell whether the fault destroys FAT itself where a cut hits the table of what is in use."""
    return kind.startswith("FAT") and fault in (BROKEN, ERASED)


def cuts(
    image: "Image",
    log: "list[tuple[Operation, Any]]",
    fault: str,
    size: int,
    tear: int = TEAR,
    stride: int = 1,
) -> "Iterator[tuple[int, Image, Any]]":
    """Yield `(operation, image, note)` of a cut at every, or every so manyth, noted operation."""
    image = dict(image)
    for number, (operation, note) in enumerate(log):
        if number % stride == 0:
            left = dict(image)
            cut_short(left, operation, fault, size, tear)
            yield number, left, note
        apply(image, operation, size)

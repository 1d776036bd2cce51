"""A board's ROMFS partition: read its contents, and write an image."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from budget_cpython.board.build import CORE, romfs_image
from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError

_LOOK = """
import hashlib, json, os
try:
    from vfs import rom_ioctl
except ImportError:
    rom_ioctl = None
if rom_ioctl is None or rom_ioctl(1) <= 0:
    print("null")
else:
    rom = memoryview(rom_ioctl(2, 0))
    try:
        there = sorted(os.listdir("/rom"))
    except OSError:
        there = []
    digest = hashlib.sha256()
    if {length} <= len(rom):
        for start in range(0, {length}, 512):
            digest.update(rom[start:min(start + 512, {length})])
    print(json.dumps([len(rom), there, "".join("%02x" % byte for byte in digest.digest())]))
"""


class Romfs:
    """The first ROMFS partition of a board, and the image that it should contain.

    Without an image it should contain no core, and need not exist. `differs` says whether it must
    be written. Raises `BoardError` if it must and does not exist, is too small, or contains other
    files, which the image would replace.
    """

    def __init__(self, device: Device, image: bytes | None) -> None:
        self.device = device
        self.what = "an empty ROMFS image" if image is None else "the ROMFS image"
        self.image = _empty_image() if image is None else image
        self._digest = sha256(self.image).hexdigest()
        found = look(device, len(self.image))
        if found is None:
            if image is not None:
                raise BoardError(
                    "the board's firmware has no ROMFS partition: deploy with --mpy, or install a "
                    "firmware that has one"
                )
            self.differs = False
            return
        size, there, digest = found
        self.differs = digest != self._digest if image is not None else CORE.name in there
        if not self.differs:
            return
        if others := [name for name in there if name != CORE.name]:
            raise BoardError(
                f"the board's ROMFS contains {', '.join(others)} too, and an image replaces all of "
                "it: write another image there with `mpremote romfs deploy` first"
            )
        if size < len(self.image):
            raise BoardError(
                f"the image is {len(self.image):,} bytes and the board's ROMFS partition {size:,}: "
                "deploy with --mpy"
            )

    def write(self, say: Callable[[str], None]) -> int:
        """Write the image and verify it; return its bytes.

        The board is restarted first, so that nothing runs from the partition.
        """
        self.device.connection.restart_idle()
        self.device.connection.write_romfs(self.image)
        found = look(self.device, len(self.image))
        if found is None or found[2] != self._digest:
            raise BoardError("the board's ROMFS differs when read: its flash may be worn")
        say(f"write {self.what}  {len(self.image):,} bytes")
        return len(self.image)


def look(device: Device, length: int) -> tuple[int, list[str], str] | None:
    """Return a partition's size, its files, and the hash of its first bytes; `None` without one."""
    found = device.ask(_LOOK.format(length=length))
    return found and (found[0], found[1], found[2])


def _empty_image() -> bytes:
    with TemporaryDirectory() as folder:
        return romfs_image(Path(folder))

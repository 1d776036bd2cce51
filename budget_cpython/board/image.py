"""Make a ROMFS image, from which MicroPython runs bytecode where it lies: in flash, on a chip."""

from pathlib import Path
from typing import Any

from budget_cpython.board.errors import BoardError


def image_of(folder: Path) -> bytes:
    """Return an image with what is in a folder, and in the folders there."""
    try:
        from mpremote.romfs import VfsRomWriter  # type: ignore[import-untyped]
    except ImportError:
        raise BoardError("an image needs mpremote: pip install 'microbudget[board]'") from None
    writer = VfsRomWriter()
    _add(writer, folder)
    return bytes(writer.finalise())


def _add(writer: Any, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            writer.opendir(path.name)
            _add(writer, path)
            writer.closedir()
        else:
            writer.mkfile(path.name, path.read_bytes())

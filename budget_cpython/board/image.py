"""Make a ROMFS image: MicroPython runs its bytecode in place, from flash."""

from pathlib import Path
from typing import Any

from budget_cpython.board.errors import BoardError


def image_of(folder: Path) -> bytes:
    """Return an image of a folder and its subfolders."""
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

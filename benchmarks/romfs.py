"""Make a ROMFS image, from which MicroPython runs bytecode where it lies: in flash, on a chip.

The image is a record, and so is each folder, file and file's data in it: a kind, the length of what
follows, and what follows. Numbers are written to base 128, the most significant digit first, and
all digits but the last have their top bit set. Source: MicroPython, "ROMFS filesystem format".
"""

from pathlib import Path

IMAGE = b"\xd2\xcd\x31"
DATA = b"\x02"
FOLDER = b"\x04"
FILE = b"\x05"


def image_of(folder: Path) -> bytes:
    """Return an image with what is in a folder."""
    return _record(IMAGE, _contents(folder))


def _contents(folder: Path) -> bytes:
    return b"".join(_entry(path) for path in sorted(folder.iterdir()))


def _entry(path: Path) -> bytes:
    name = _number(len(path.name)) + path.name.encode("ascii")
    if path.is_dir():
        return _record(FOLDER, name + _contents(path))
    return _record(FILE, name + _record(DATA, path.read_bytes()))


def _record(kind: bytes, payload: bytes) -> bytes:
    return kind + _number(len(payload)) + payload


def _number(value: int) -> bytes:
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F | 0x80)
    return bytes(reversed(digits))

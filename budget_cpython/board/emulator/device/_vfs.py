"""A board's `vfs`: with a partition for ROMFS."""
# mypy: ignore-errors

import sys

import _flash
import uctypes
from micropython import const
from vfs import *  # noqa: F403 - it takes that module's place
from vfs import VfsRom, mount

_BLOCK = const(4096)
_EINVAL = const(22)
_partition = [0, 0]


def start(partition):
    """Mount what the partition holds, if it is a ROMFS, and import from there."""
    _partition[:] = partition
    try:
        mount(VfsRom(rom_ioctl(2, 0)), "/rom")
    except (OSError, ValueError):
        return
    sys.path[2:2] = ["/rom", "/rom/lib"]


def rom_ioctl(operation, id=0, offset=0, argument=None):
    start, size = _partition
    if operation == 1:
        return 1
    if id:
        return -_EINVAL
    if operation == 2:
        return uctypes.bytearray_at(start, size)
    if operation == 3:  # 1.25 gives a length, later releases an offset and a length
        begin, length = (0, offset) if argument is None else (offset, argument)
        if begin + length > size:
            return -_EINVAL
        _flash.FILL(start + begin, 0xFF, length)
        return 16
    if operation == 4:
        _flash.COPY(start + offset, argument, len(argument))
        return 0
    if operation == 5:
        return 0
    return _BLOCK if operation == 6 else -_EINVAL

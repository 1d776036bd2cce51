"""What a board's firmware does before its first program: mount the flash, set up the hardware.

Precompiled into an image that is mapped outside the heap, and dropped once the board has booted.
"""
# mypy: ignore-errors

import builtins
import json
import os
import sys

import _flash
import _machine
import _repl
import _terminal
import _time
import uctypes
import vfs
from micropython import const

_NOT_MOUNTED = const(14)
_READ_WRITE = const(2 | 1)
_SHARED = const(1)
_TIOCSCTTY = const(0x540E)
_SIGHUP = const(1)


def boot(namespace):
    """Make a board of this process, as its environment says; return what then runs it."""
    settings = json.loads(os.getenv("MICROBUDGET_BOARD"))
    take_terminal()
    cells = kept(settings["kept"])
    flash = _flash.Flash(*mapped(settings["flash"]), settings["block_size"], cells)
    if settings["romfs"]:
        import _vfs

        rom = _vfs, mapped(settings["romfs"])
    else:
        rom = None
    if settings["poses_as"]:
        import _sys

        _sys.pose(*settings["poses_as"])
    vfs.umount("/board")
    vfs.umount("/")
    try:
        vfs.mount((vfs.VfsFat if settings["filesystem"] == "fat" else vfs.VfsLfs2)(flash), "/")
    except OSError:
        _flash.EXIT(_NOT_MOUNTED)
    os.chdir("/")
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.argv.clear()
    builtins.input = _repl.entered
    use_hardware(settings, cells, rom)
    namespace.clear()
    namespace["__name__"] = "__main__"
    return _repl.Repl(namespace, settings["raw"], settings["booting"]).run


def mapped(path):
    """Return the address and the size of a file mapped into memory."""
    size = os.stat(path)[6]
    file = _flash.LIBC.func("i", "open", "si")(path, 2)
    map_file = _flash.LIBC.func("p", "mmap", "pLiiil")
    address = map_file(None, size, _READ_WRITE, _SHARED, file, 0)
    return address, size


def kept(path):
    """Return what outlives a reset, but not the board's power, as the host has laid it out."""
    fields = {"limit": uctypes.INT64, "done": uctypes.INT64 | 8, "clock_ns": uctypes.INT64 | 16}
    return uctypes.struct(mapped(path)[0], fields)


def take_terminal():
    """Let Ctrl-C come to this process, and take the terminal's present state as the plain one.

    The end of the terminal ends the process, even where a parent ignores hang-ups.
    """
    _flash.LIBC.func("p", "signal", "ip")(_SIGHUP, None)
    _flash.LIBC.func("i", "ioctl", "iLi")(0, _TIOCSCTTY, 0)
    _flash.LIBC.func("i", "tcgetattr", "ip")(0, _terminal.PLAIN)
    running = _terminal.RUNNING
    running[:] = _terminal.PLAIN
    running[1] |= 0x01  # ICRNL
    running[4] |= 0x05  # OPOST, ONLCR
    running[12] |= 0x81  # ISIG, NOFLSH


def use_hardware(settings, cells, rom):
    """Put a board's modules in the place of the unix port's."""
    _time.start(cells, settings["epoch"])
    sys.modules.update({"time": _time, "machine": _machine, "micropython": _terminal})
    if rom:
        module, partition = rom
        module.start(partition)
        sys.modules["vfs"] = module
    for name in ("_flash", "_terminal", "_repl", "_time", "_machine", "_vfs", "_sys", "_board"):
        sys.modules.pop(name, None)

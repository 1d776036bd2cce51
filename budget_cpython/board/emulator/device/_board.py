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
import vfs


def boot(namespace):
    """Make a board of this process, as its environment says; return what then runs it."""
    settings = json.loads(os.getenv("MICROBUDGET_BOARD"))
    _terminal.start()
    cells = _flash.kept(settings["kept"])
    flash = _flash.Flash(settings["flash"], settings["block_size"], cells)
    if settings["romfs"]:
        import _vfs

        rom = _vfs, _flash.mapped(settings["romfs"])
    else:
        rom = None
    vfs.umount("/board")
    vfs.umount("/")
    mount(flash, vfs.VfsFat if settings["filesystem"] == "fat" else vfs.VfsLfs2)
    os.chdir("/")
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.argv.clear()
    builtins.input = _repl.entered
    use_hardware(settings, cells, rom)
    namespace.clear()
    namespace["__name__"] = "__main__"
    return _repl.Repl(namespace, settings["mode"], settings["booting"]).run


def mount(flash, kind):
    """Mount the flash as a board's firmware does: what cannot be mounted is formatted.

    Formatting is not counted.
    """
    limit, flash.cells.limit = flash.cells.limit, 0
    try:
        vfs.mount(kind(flash), "/")
    except OSError:
        done = flash.cells.done
        kind.mkfs(flash)
        vfs.mount(kind(flash), "/")
        flash.cells.done = done
    flash.cells.limit = limit


def use_hardware(settings, cells, rom):
    """Put a board's modules in the place of the unix port's."""
    _time.start(cells, settings["epoch"])
    _machine.IDENTITY = bytes(settings["identity"], "ascii")
    sys.modules.update({"time": _time, "machine": _machine, "micropython": _terminal})
    if rom:
        module, partition = rom
        module.start(partition)
        sys.modules["vfs"] = module
    for name in ("_flash", "_terminal", "_repl", "_time", "_machine", "_vfs", "_board"):
        sys.modules.pop(name, None)

"""Check that modules are loaded from where they belong: no other file of the name stands before.

MicroPython searches the folders of `sys.path` in turn, the frozen modules at `.frozen`. In a folder
it takes a folder of the module's name before a `.py`, and that before a `.mpy`.
"""

import ast
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from budget_cpython.board.build import CORE, LIBRARY, ROMFS, listed_files
from budget_cpython.board.device import Device
from budget_cpython.board.doctor.finding import program_source
from budget_cpython.board.errors import DeviceError
from budget_cpython.board.plan import ROM
from budget_cpython.board.programs import DEPLOYED, PROGRAMS, SECRETS
from budget_cpython.finding import Finding, Result, ok

# What the core imports of the firmware.
_FIRMWARE = [
    *("asyncio", "binascii", "errno", "gc", "hashlib", "json", "os", "select", "socket", "sys"),
    *("time", "tls"),
]
_FROZEN = ".frozen"
_SUFFIXES = ("/", ".py", ".mpy")
_SHOWN = 3

SearchPath = list[tuple[str, list[str] | None]]


def check_imports(device: Device) -> Finding:
    """Check that what was deployed, and the firmware's modules, are what programs import."""
    constants = f"LIBRARY, FIRMWARE = {LIBRARY!r}, {_FIRMWARE!r}\n"
    said = device.connection.run(constants + program_source("imports"))
    path, core, firmware = ast.literal_eval(said.strip().splitlines()[-1])
    listed = _listed(device)
    first, never = _compared(path, _wanted(listed))
    inner, unlisted = _of_the_core(core, [name for name in listed if name.startswith(LIBRARY)])
    broken, replaced = _of_the_firmware(path, firmware)
    port = device.connection.port
    if bad := first | inner | broken:
        return _finding(Result.FAILS, bad, port)
    if odd := replaced | dict.fromkeys([*never, *unlisted], "is never loaded"):
        return _finding(Result.WARNING, odd, port)
    return ok("each module comes from the deploy or the firmware")


def _finding(result: Result, files: dict[str, str], port: str) -> Finding:
    said = [f"{path} {what}" for path, what in files.items()]
    more = f" and {len(said) - _SHOWN} more" * (len(said) > _SHOWN)
    paths = " ".join(f":{path}" for path in files)
    fix = f"remove what you did not put there: `mpremote connect {port} rm -r {paths}`"
    return Finding(result, ", ".join(said[:_SHOWN]) + more, fix)


def _listed(device: Device) -> Collection[str]:
    try:
        return listed_files(device.connection.read(DEPLOYED))
    except (DeviceError, OSError):
        return ()


def _wanted(listed: Collection[str]) -> dict[str, str]:
    """Return where the modules of a deploy belong, by their name."""
    if not listed:
        return {}
    tops = {f"/{path.split('/')[1]}" for path in listed if path.endswith((".py", ".mpy"))}
    own = {*tops, SECRETS, DEPLOYED} - {*PROGRAMS, "/lib"}
    core = ROM if any(name.startswith(ROMFS) for name in listed) else _FROZEN
    if any(name.startswith(LIBRARY) for name in listed):
        core = LIBRARY
    return {PurePosixPath(path).stem: path for path in own} | {CORE.name: core}


def _compared(path: SearchPath, wanted: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the files that come before the wanted ones, and those that come after."""
    before: dict[str, str] = {}
    after: list[str] = []
    for name, place in sorted(wanted.items()):
        found = list(_places(path, name))
        if place in found:  # else the check of the files says that it is missing
            at = found.index(place)
            shown = "the firmware's core" if place == _FROZEN else place
            files = [file for file in found[:at] if file != _FROZEN]
            before |= dict.fromkeys(files, f"is loaded instead of {shown}")
            after += [file for file in found[at + 1 :] if file != _FROZEN]
    return before, after


def _places(path: SearchPath, name: str) -> Iterator[str]:
    """Yield where a module of a name may be loaded from, in the order of the search."""
    for folder, names in path:
        if folder == _FROZEN:
            yield _FROZEN
        for suffix in _SUFFIXES:
            if name + suffix in (names or ()):
                yield "/" + f"{folder}/{name}{suffix}".strip("/")


def _of_the_core(found: list[str], listed: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the files of its folder that stand before deployed ones, and the others of no use."""
    modules = {path.rpartition(".")[0]: path for path in listed}
    before: dict[str, str] = {}
    unused: list[str] = []
    for path in found if listed else ():
        folders = [str(above) for above in PurePosixPath(path).parents if str(above) in modules]
        hidden = modules.get(path.removesuffix(".py")) if path.endswith(".py") else None
        if path in listed:
            continue
        if folders:
            before[folders[0]] = f"is loaded instead of {modules[folders[0]]}"
        elif hidden:
            before[path] = f"is loaded instead of {hidden}"
        else:
            unused.append(path)
    return before, unused


def _of_the_firmware(
    path: SearchPath, loaded: list[tuple[str, str | None]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files that stand for modules of the firmware: those that fail, and those that run.

    `loaded` has the place that each module was loaded from, `None` if it could not be.
    """
    broken, replaced = {}, {}
    for name, place in loaded:
        found = [file for file in _places(path, name) if file != _FROZEN]
        if place is None and found:
            broken[found[0]] = f"is loaded instead of the firmware's {name}, and fails"
        for file in found:
            if place is not None and f"/{place.lstrip('/')}/".startswith(f"{file}/"):
                replaced[file] = f"is loaded instead of the firmware's {name}"
    return broken, replaced

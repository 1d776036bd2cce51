"""Which device a board's folder is for, and whether the connected one is that device."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from budget_cpython.board.build import MPY_VERSION, Form
from budget_cpython.board.device import OLDEST, Device, Identity
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import known_boards

FILE = "board.toml"
_MISSING = """
import json
missing = []
for name in {names!r}:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(json.dumps(missing))
"""


@dataclass(frozen=True)
class Target:
    """The device that a folder is for, as its `board.toml` says.

    `platform` is its `sys.platform`, `chip` the end of its `sys.implementation._machine`, `modules`
    what its firmware must have, `micropython` the oldest release, and `firmware` the name to
    install it by.
    """

    platform: str
    firmware: str
    chip: str = ""
    modules: tuple[str, ...] = ()
    micropython: str = ".".join(map(str, OLDEST))

    def is_met_by(self, found: Identity) -> bool:
        """Return whether a device has the platform and the chip."""
        if found.platform != self.platform:
            return False
        return not self.chip or _plain(found.machine.rpartition(" with ")[2]) == _plain(self.chip)

    @property
    def oldest(self) -> tuple[int, ...]:
        """The oldest release as numbers."""
        return tuple(map(int, self.micropython.split(".")))


def read_target(board: Path) -> Target | None:
    """Return what a folder's `board.toml` says, or `None` if it has none.

    Raises `UsageError` if the file is malformed.
    """
    path = board / FILE
    if not path.is_file():
        return None
    try:
        return _target(tomllib.loads(path.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None


def mismatches(board: Path, device: Device, form: Form) -> list[str]:
    """Return why the connected board is not the one that a folder is for, each with its fix."""
    found = device.identity
    trouble = _wrong_mpy(found, form)
    target = read_target(board)
    if target is None:
        return trouble
    port = device.connection.port
    if not target.is_met_by(found):
        others = [name for name, folder in known_boards().items() if _suits(folder, found)]
        fix = f"deploy {' or '.join(others)}" if others else "deploy a folder of your own for it"
        wanted = f"{target.platform}, {target.chip}" if target.chip else target.platform
        trouble.append(
            f"{board.name} is for {target.firmware} ({wanted}), and the board at {port} is "
            f"{found.platform}, {found.machine!r}: {fix}, or choose another port"
        )
        return trouble
    if found.version < target.oldest:
        trouble.append(
            f"the board at {port} runs MicroPython {'.'.join(map(str, found.version))}, and "
            f"{board.name} needs {target.micropython}: install a newer {target.firmware}"
        )
    if missing := device.ask(_MISSING.format(names=target.modules)):
        trouble.append(
            f"the firmware of the board at {port} has no module {', '.join(missing)}: install "
            f"{target.firmware}"
        )
    return trouble


def _suits(board: Path, found: Identity) -> bool:
    target = read_target(board)
    return target is not None and target.is_met_by(found)


def _wrong_mpy(found: Identity, form: Form) -> list[str]:
    if form not in (Form.MPY, Form.ROMFS) or found.mpy_version == MPY_VERSION:
        return []
    loads = f".mpy files of version {found.mpy_version}" if found.mpy_version else "no .mpy files"
    return [f"the firmware loads {loads}, not of version {MPY_VERSION}: deploy with --source"]


def _target(values: dict[str, Any]) -> Target:
    names = [field.name for field in fields(Target)]
    for name, value in values.items():
        if name not in names:
            raise ValueError(f"{name} is not known; the names are {', '.join(names)}")
        kind = list if name == "modules" else str
        if not isinstance(value, kind):
            raise ValueError(f"{name} = {value!r} must be a {kind.__name__}")
    for name in ("platform", "firmware"):
        if not values.get(name):
            raise ValueError(f"{name} is missing")
    target = Target(**values | {"modules": tuple(map(str, values.get("modules", ())))})
    if not target.oldest > (0,):
        raise ValueError(f"micropython = {target.micropython!r} is not a release")
    return target


def _plain(chip: str) -> str:
    """Return a chip's name as all firmwares write it: ESP32-S3 and ESP32S3 are one."""
    return chip.upper().replace("-", "")

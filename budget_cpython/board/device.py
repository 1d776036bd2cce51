"""A board's files: listed by hash, and changed so that none is ever half written."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from budget_cpython.board.connection import BoardConnection, choose_port
from budget_cpython.board.errors import BoardError

OLDEST = (1, 24)
UNFINISHED = ".new"
_IDENTITY = """
import json, sys
it = sys.implementation
machine, mpy = getattr(it, "_machine", ""), getattr(it, "_mpy", 0) & 0xFF
port = [sys.platform, machine, mpy, sys.maxsize > 1 << 32]
print(json.dumps([it.name, list(it.version[:2])] + port))
"""
_DIGESTS = """
import hashlib, json, os
def show(path):
    try:
        folder = os.stat(path)[0] & 0x4000
    except OSError:
        return
    if folder:
        for entry in sorted(os.listdir(path)):
            show(path + "/" + entry)
        return
    digest = hashlib.sha256()
    block = bytearray(256)
    with open(path, "rb") as file:
        while True:
            n = file.readinto(block)
            if not n:
                break
            digest.update(memoryview(block)[:n])
    print(json.dumps([path, "".join("%02x" % byte for byte in digest.digest())]))
for path in {paths!r}:
    show(path)
"""
_IMPORTED_FROM = """
import json
try:
    import {module}
    print(json.dumps(getattr({module}, "__file__", None)))
except Exception:
    print("null")
"""
_FOLDERS = """
import os
for path in {paths!r}:
    try:
        os.mkdir(path)
    except OSError as error:
        if error.errno != 17:
            raise
"""


@dataclass(frozen=True)
class Identity:
    """What a board says of its firmware; `mpy_version` is 0 if it loads no `.mpy` files."""

    name: str
    version: tuple[int, ...]
    platform: str
    machine: str
    mpy_version: int
    has_64_bits: bool


class Device:
    """The file system of a connected board. Paths are absolute."""

    def __init__(self, connection: BoardConnection) -> None:
        self.connection = connection

    def ask(self, program: str, silence_s: float = 0) -> Any:
        """Run a program, as `BoardConnection.run` does; return the JSON of its last line."""
        said = self.connection.run(program, silence_s)
        try:
            return json.loads(said.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise BoardError(f"the board answered {said!r}, which is not JSON") from None

    @cached_property
    def identity(self) -> Identity:
        """What the board says of its firmware."""
        name, version, *rest = self.ask(_IDENTITY)
        return Identity(name, tuple(version), *rest)

    def check_firmware(self) -> None:
        """Raise `BoardError` if the firmware cannot run the core."""
        found = self.identity
        if found.name != "micropython" or found.version < OLDEST:
            shown = f"{found.name} {'.'.join(map(str, found.version))}"
            raise BoardError(f"the board runs {shown}; it needs MicroPython 1.24 or later")

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the SHA-256 of each file at or below each path."""
        lines = self.connection.run(_DIGESTS.format(paths=list(paths))).splitlines()
        return dict(json.loads(line) for line in lines)

    def get(self, digests: dict[str, str]) -> dict[str, bytes]:
        """Return files by their paths, each verified by its SHA-256, as `digests` returns them."""
        copies = {path: self.connection.read(path) for path in digests}
        for path, data in copies.items():
            if sha256(data).hexdigest() != digests[path]:
                raise BoardError(f"{path} differs after the copy: try again")
        return copies

    def put(self, path: str, data: bytes) -> None:
        """Write a file beside its place, verify it and move it there."""
        beside = path + UNFINISHED
        self.connection.write(beside, data)
        if self.digests([beside]) != {beside: sha256(data).hexdigest()}:
            raise BoardError(
                f"{path} differs when read: the board's flash may be worn, or the cable bad"
            )
        self.rename(beside, path)

    def make_folders(self, files: Iterable[str]) -> None:
        """Make every folder above these files."""
        folders: set[str] = set()
        for path in files:
            parts = path.split("/")[1:-1]
            folders |= {"/" + "/".join(parts[: n + 1]) for n in range(len(parts))}
        self.connection.run(_FOLDERS.format(paths=sorted(folders)))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that exist."""
        self.connection.run(f"import os\nfor path in {list(paths)!r}:\n    os.remove(path)")

    def rename(self, old: str, new: str) -> None:
        """Move a file into the place of another."""
        self.connection.run(f"import os\nos.rename({old!r}, {new!r})")

    def imported_from(self, module: str) -> str | None:
        """Return the file that a module is imported from, or `None`."""
        found: str | None = self.ask(_IMPORTED_FROM.format(module=module))
        return found


@contextlib.contextmanager
def work_on(port: str | None, restart: bool = True) -> Iterator[Device]:
    """Interrupt the program of a board, yield its device, and restart the program at the end."""
    with BoardConnection(choose_port(port)) as connection:
        try:
            device = Device(connection)
            device.check_firmware()
            yield device
        finally:
            with contextlib.suppress(BoardError):
                connection.restart() if restart else connection.release()

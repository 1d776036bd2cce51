"""Ask a board about its files, and change them so that no file is ever half there."""

import hashlib
import json
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from budget_cpython.board import programs
from budget_cpython.board.errors import BoardError, DeviceError
from budget_cpython.board.link import Link

OLDEST = (1, 24)
BYTECODE = 6
UNFINISHED = ".new"
TRIES = 2
CHUNK = 768
PROGRAM = 1_200  # characters: a small heap compiles that with ease
T = TypeVar("T")


class Device:
    """The file system of a board that is reached by a link. Paths are absolute."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.heap: list[int] | None = None
        self._has_tools = False

    def _use(self, program: str) -> str:
        """Run a program that needs the tools; they are sent once, and lost at a restart."""
        if not self._has_tools:
            self.link.run(programs.TOOLS)
            self._has_tools = True
        return self.link.run(program)

    def restart_idle(self) -> None:
        """Restart MicroPython without `main.py`."""
        self._has_tools = False
        self.link.restart_idle()

    def with_room(self, work: Callable[[], T]) -> T:
        """Do something, and once more in the memory of a restart where there was none for it."""
        try:
            return work()
        except DeviceError as error:
            if error.kind != "MemoryError":
                raise
        self.restart_idle()
        return work()

    def ask(self, program: str) -> Any:
        """Run a program that may use the tools and prints JSON last; return that."""
        return _last(self._use(program))

    def check_firmware(self) -> tuple[int, ...]:
        """Return the firmware's version; `BoardError` for one that cannot run the core."""
        name, version, bytecode = self.ask(programs.FIRMWARE)
        shown = ".".join(map(str, version))
        if name != "micropython":
            raise BoardError(f"the board runs {name} {shown}; it needs MicroPython 1.24 or later")
        if tuple(version) < OLDEST:
            raise BoardError(f"the board runs MicroPython {shown}; it needs 1.24 or later")
        if bytecode != BYTECODE:
            raise BoardError(
                f"the board's MicroPython {shown} reads no .mpy of version {BYTECODE}: "
                "deploy with --source"
            )
        return tuple(version)

    def forget_program(self) -> None:
        """Free the memory of the program that was interrupted, all but its clock.

        One that left no room even for that goes with a restart, and `boot.py` runs again.
        `heap` are the bytes that were in use and free before, where the port can tell.
        """
        self._has_tools = False
        try:
            self.heap = _last(self.link.run(programs.FORGET.format(ours=programs.OURS)))
        except BoardError as error:
            if isinstance(error, DeviceError) and error.kind != "MemoryError":
                raise
            self.restart_idle()

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the SHA-256 of each file there is at or below each path."""
        lines = self._use(f"for path in {list(paths)!r}:\n    show(path)").splitlines()
        return dict(json.loads(line) for line in lines)

    def put(self, path: str, data: bytes) -> None:
        """Write a file beside its place, verify it and move it there; one retry."""
        wanted = hashlib.sha256(data).hexdigest()
        beside = path + UNFINISHED
        chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
        # Closed after each chunk: what is cut short must leave no file open.
        steps = [
            programs.WRITE.format(path=beside, mode="ab", data=b2a_base64(part)) for part in chunks
        ]
        steps.insert(0, programs.WRITE.format(path=beside, mode="wb", data=b""))
        steps.append(f"move({beside!r}, {path!r}, {wanted!r})\n")
        for _ in range(TRIES):
            for step in _joined(steps):
                said = self._use(step)
            if _last(said):
                return
        raise BoardError(
            f"{path} reads back other than it was written, twice: the board's flash may be worn, "
            "or the cable bad"
        )

    def make_folders(self, files: Iterable[str]) -> None:
        """Make every folder above these files."""
        folders: set[str] = set()
        for path in files:
            parts = path.split("/")[1:-1]
            folders |= {"/" + "/".join(parts[: n + 1]) for n in range(len(parts))}
        if folders:
            self._use(programs.FOLDERS.format(paths=sorted(folders)))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that are there."""
        self._use(programs.REMOVE.format(paths=list(paths)))

    def remove_empty(self, folder: str) -> None:
        """Remove a folder, if there is one, that holds folders alone."""
        self._use(programs.REMOVE_FOLDER.format(path=folder))

    def rename(self, old: str, new: str) -> None:
        """Move a file into the place of another."""
        self._use(f"os.rename({old!r}, {new!r})")

    def loads(self, module: str, before: tuple[str, ...] = ()) -> str | None:
        """Return the file that a module is loaded from, or `None` where there is none.

        With folders to look `before`, only what is earlier on `sys.path` than all of them counts.
        """
        found: str | None = _last(
            self.link.run(programs.LOADS.format(module=module, before=before))
        )
        return found


def _joined(lines: list[str]) -> Iterator[str]:
    """Put lines together into programs of a bounded length."""
    program = ""
    for line in lines:
        if program and len(program) + len(line) > PROGRAM:
            yield program
            program = ""
        program += line
    yield program


def _last(said: str) -> Any:
    """Return the JSON on the last line: what else was running may have printed before."""
    lines = said.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise BoardError(f"the board gave no answer but {said!r}") from None

"""A board's files: listed by hash, and changed so that none is ever half written."""

import contextlib
import hashlib
import json
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from budget_cpython.board import snippets
from budget_cpython.board.errors import BoardError, DeviceError
from budget_cpython.board.link import Link
from budget_cpython.board.ports import choose_port

OLDEST = (1, 24)
BYTECODE = 6
UNFINISHED = ".new"
TRIES = 2
CHUNK = 768
PROGRAM = 1_200  # characters, which a small heap can compile
T = TypeVar("T")


class Device:
    """The file system of the board at a link. Paths are absolute."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.heap: list[int] | None = None
        self._has_tools = False

    def _use(self, program: str) -> str:
        """Run a program that needs the tools: these are sent once after each restart."""
        if not self._has_tools:
            self.link.run(snippets.TOOLS)
            self._has_tools = True
        return self.link.run(program)

    def restart_idle(self) -> None:
        """Restart MicroPython without `main.py`."""
        self._has_tools = False
        self.link.restart_idle()

    def with_room(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; after a `MemoryError` restart the board and try once more."""
        try:
            return work()
        except DeviceError as error:
            if error.kind != "MemoryError":
                raise
        self.restart_idle()
        return work()

    def ask(self, program: str) -> Any:
        """Run a program that may use the tools; return the JSON of its last line."""
        return _last(self._use(program))

    def check_firmware(self) -> tuple[int, ...]:
        """Return the firmware's version; `BoardError` if it cannot run the core."""
        name, version, bytecode = self.ask(snippets.FIRMWARE)
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
        """Free the memory of the interrupted program, except its clock.

        If there is no memory even for that, the board is restarted, and `boot.py` runs again.
        `heap` is the bytes that were used and free before, if the port can tell.
        """
        self._has_tools = False
        try:
            self.heap = _last(self.link.run(snippets.FORGET.format(ours=snippets.OURS)))
        except BoardError as error:
            if isinstance(error, DeviceError) and error.kind != "MemoryError":
                raise
            self.restart_idle()

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the SHA-256 of each file at or below each path."""
        lines = self._use(f"for path in {list(paths)!r}:\n    show(path)").splitlines()
        return dict(json.loads(line) for line in lines)

    def put(self, path: str, data: bytes) -> None:
        """Write a file beside its place, verify it and move it there; with one retry."""
        wanted = hashlib.sha256(data).hexdigest()
        beside = path + UNFINISHED
        chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
        # Closed after each chunk, so that an interrupt leaves no file open.
        steps = [
            snippets.WRITE.format(path=beside, mode="ab", data=b2a_base64(part)) for part in chunks
        ]
        steps.insert(0, snippets.WRITE.format(path=beside, mode="wb", data=b""))
        steps.append(f"move({beside!r}, {path!r}, {wanted!r})\n")
        for _ in range(TRIES):
            for step in _joined(steps):
                said = self._use(step)
            if _last(said):
                return
        raise BoardError(
            f"{path} was written twice and differs when read: the board's flash may be worn, "
            "or the cable bad"
        )

    def make_folders(self, files: Iterable[str]) -> None:
        """Make every folder above these files."""
        folders: set[str] = set()
        for path in files:
            parts = path.split("/")[1:-1]
            folders |= {"/" + "/".join(parts[: n + 1]) for n in range(len(parts))}
        if folders:
            self._use(snippets.FOLDERS.format(paths=sorted(folders)))

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that exist."""
        self._use(snippets.REMOVE.format(paths=list(paths)))

    def remove_empty(self, folder: str) -> None:
        """Remove a folder, if it exists, that contains only folders."""
        self._use(snippets.REMOVE_FOLDER.format(path=folder))

    def rename(self, old: str, new: str) -> None:
        """Move a file into the place of another."""
        self._use(f"os.rename({old!r}, {new!r})")

    def loads(self, module: str, before: tuple[str, ...] = ()) -> str | None:
        """Return the file that a module is imported from, or `None`.

        Only entries of `sys.path` before all of the folders `before` count.
        """
        found: str | None = _last(
            self.link.run(snippets.LOADS.format(module=module, before=before))
        )
        return found


@contextlib.contextmanager
def work_on(port: str | None, restart: bool = True) -> Iterator[Device]:
    """Interrupt the program of a board, yield its device, and restart the program at the end."""
    with Link(choose_port(port)) as link:
        try:
            device = Device(link)
            device.forget_program()
            device.with_room(device.check_firmware)
            yield device
        finally:
            with contextlib.suppress(BoardError):
                link.restart() if restart else link.release()


def _joined(lines: list[str]) -> Iterator[str]:
    """Join lines into programs of a bounded length."""
    program = ""
    for line in lines:
        if program and len(program) + len(line) > PROGRAM:
            yield program
            program = ""
        program += line
    yield program


def _last(said: str) -> Any:
    """Return the JSON of the last line: other programs may have printed before it."""
    lines = said.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        raise BoardError(f"the board answered {said!r}, which is not JSON") from None

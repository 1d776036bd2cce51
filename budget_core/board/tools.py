"""Give a model tools on a board: to read the notes of one folder, and the chip's state."""

import gc
import os

from budget_core.agent.tool import Tool
from budget_core.monotonic import MONOTONIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FILE = 0x8000


def note_tools(folder: str, max_bytes: int) -> "list[Tool]":
    """Return the tools `list_files` and `read_file` for the notes in a folder.

    A note is a file in the folder itself that is not hidden. At most `max_bytes` of it are read.
    """

    def list_files() -> str:
        sizes = [f"{name}\t{os.stat(folder + '/' + name)[6]}" for name in _names(folder)]
        return "\n".join(sizes) or "(no notes)"

    def read_file(path: str) -> str:
        if path not in _names(folder):
            raise ValueError(f"no note {path!r}; list_files names the notes")
        with open(folder + "/" + path, "rb") as file:
            data = file.read(max_bytes + 1)
        return _text(data, max_bytes)

    name = {"type": "string", "description": "a name as list_files gives it"}
    schema = {"type": "object", "properties": {"path": name}, "required": ["path"]}
    return [
        Tool("list_files", "List the notes on this board, with sizes in bytes.", list_files),
        Tool("read_file", "Read a note.", read_file, schema),
    ]


def chip_tool(celsius: "Callable[[], float] | None" = None) -> Tool:
    """Return the tool `read_chip`: uptime, free heap and, with `celsius`, the temperature."""

    def read_chip() -> str:
        free = getattr(gc, "mem_free", None)
        found = [f"up for {MONOTONIC.read() // MONOTONIC.per_ms // 1000} s"]
        if free is not None:
            found.append(f"{free()} bytes of heap free")
        if celsius is not None:
            found.append(f"{celsius():.1f} degrees Celsius")
        return ", ".join(found)

    return Tool("read_chip", "Read the chip's uptime, free memory and temperature.", read_chip)


def _names(folder: str) -> "list[str]":
    try:
        found = os.listdir(folder)
    except OSError:  # there are no notes yet
        return []
    plain = [name for name in found if not name.startswith(".")]
    return sorted([name for name in plain if os.stat(folder + "/" + name)[0] & _FILE])


def _text(data: bytes, max_bytes: int) -> str:
    cut = "\n(cut here)" if len(data) > max_bytes else ""
    data = data[:max_bytes]
    if not data:
        return cut
    for end in range(len(data), max(len(data) - 4, 0), -1):  # a cut may split a character
        try:
            return data[:end].decode() + cut
        except UnicodeError:
            pass
    raise ValueError("the note is not text")

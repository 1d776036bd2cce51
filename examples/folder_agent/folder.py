"""List and read the files of one folder, and of no other."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = 0x4000
FILE = 0x8000


def entries(path: str) -> "list[tuple[str, int]]":
    """Return `(name, kind)` of a folder's files and folders, sorted.

    Links and the like are neither. Hidden names are left out, so an agent sees no state, no secrets
    and no version control.
    """
    ilistdir = getattr(os, "ilistdir", None)
    if ilistdir is not None:
        found = [(entry[0], entry[1]) for entry in ilistdir(path)]
    else:
        found = [(entry.name, _kind(entry)) for entry in os.scandir(path)]
    return sorted([e for e in found if e[1] in (FOLDER, FILE) and not e[0].startswith(".")])


def _kind(entry: "Any") -> int:
    if entry.is_symlink():
        return 0
    return FOLDER if entry.is_dir() else FILE


class Folder:
    """The files below `path`, for a model's tools.

    Raises `ValueError` for a name that is not one of them, whatever it is made of: each step is
    looked up in its parent's listing, so neither `..` nor a link leads out.
    """

    def __init__(self, path: str, max_files: int, max_bytes: int) -> None:
        self.path = path.rstrip("/") or "/"
        self.max_files = max_files
        self.max_bytes = max_bytes

    def list_files(self) -> str:
        """Return a line a file: its path and its size in bytes."""
        paths: list[str] = []
        self._walk("", paths)
        lines = [f"{path}\t{os.stat(self.path + '/' + path)[6]}" for path in paths]
        if len(lines) == self.max_files:
            lines.append(f"(only the first {self.max_files} files)")
        return "\n".join(lines) or "(no files)"

    def _walk(self, prefix: str, paths: "list[str]") -> None:
        for name, kind in entries(self.path + "/" + prefix):
            if len(paths) == self.max_files:
                return
            if kind == FOLDER:
                self._walk(prefix + name + "/", paths)
            else:
                paths.append(prefix + name)

    def read_file(self, path: str) -> str:
        """Return the beginning of a file as text."""
        place = self.path
        steps = path.split("/")
        for step in steps:
            wanted = FILE if step is steps[-1] else FOLDER
            if (step, wanted) not in entries(place):
                raise ValueError(f"no file {path!r} in the folder; list_files says what is there")
            place += "/" + step
        with open(place, "rb") as file:
            data = file.read(self.max_bytes + 1)
        cut = "\n(cut here)" if len(data) > self.max_bytes else ""
        return _text(data[: self.max_bytes]) + cut


def _text(data: bytes) -> str:
    for end in range(len(data), max(len(data) - 4, -1), -1):  # a cut may split a character
        try:
            return data[:end].decode()
        except UnicodeError:
            pass
    raise ValueError("the file is not text")

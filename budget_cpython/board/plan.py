"""The files to copy and to delete in a deploy."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from budget_cpython.board.build import CORE, LIBRARY, Build, Form
from budget_cpython.board.device import UNFINISHED, Device
from budget_cpython.board.errors import BoardError
from budget_cpython.board.programs import DEPLOYED, PROGRAMS, SECRETS
from budget_cpython.board.romfs import Romfs
from budget_cpython.board.state import ASIDE

ROM = f"/rom/{CORE.name}"
LAST = (DEPLOYED, *PROGRAMS)
_INLINE = 512  # littlefs keeps smaller files beside their names
_BLOCKS_OF_A_FOLDER = 2
_SIZES = """
import json, os
print(json.dumps(sum(os.stat(path)[6] + {block} - 1 & -{block} for path in {paths!r})))
"""


@dataclass
class Plan:
    """The files of a build, and `extra` ones such as secrets, that a board lacks.

    Raises `BoardError` if the firmware has another core, or a ROMFS that does not suit.
    """

    device: Device
    build: Build
    extra: dict[str, bytes] = field(default_factory=dict)
    found: dict[str, str] = field(init=False)
    romfs: Romfs = field(init=False)

    def __post_init__(self) -> None:
        _check_import(self.device, self.build)
        self.romfs = Romfs(self.device, self.build.image)
        self.found = self.device.digests(self._looked_at())
        self.is_new = DEPLOYED not in self.found
        self.halted = any(path + ASIDE in self.found for path in PROGRAMS)
        self.todo = [path for path in self.wanted if self.differs(path)]
        kept = {*self.wanted, *(path + ASIDE for path in PROGRAMS)}
        # They would be imported instead, or are of no use.
        self.stale = [path for path in self.found if path not in kept]

    @property
    def wanted(self) -> dict[str, bytes]:
        """The files that are to be there."""
        return self.build.files | self.extra

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.todo or self.stale or self.halted or self.romfs.differs)

    def differs(self, path: str) -> bool:
        """Return whether a file is missing or another one; a program may have been renamed."""
        wanted = sha256(self.wanted[path]).hexdigest()
        where = (path, path + ASIDE) if path in PROGRAMS else (path,)
        return all(self.found.get(place) != wanted for place in where)

    def flash_needed(self, block: int) -> int:
        """Return how many bytes more of the file system are used afterwards, in whole blocks."""
        sizes = [len(self.wanted[path]) for path in self.todo]
        new = sum(size + block - 1 & -block for size in sizes if size > _INLINE)
        new += _BLOCKS_OF_A_FOLDER * block * len(_folders(self.todo) - _folders(self.found))
        old = [path for path in self.todo if path in self.found] + self.stale
        return new - int(self.device.ask(_SIZES.format(paths=old, block=block)))

    def lines(self) -> Iterator[str]:
        """Yield what is to be done, a line each."""
        if self.romfs.differs:
            yield f"would write {self.romfs.what}  {len(self.romfs.image):,} bytes"
        yield from (f"would remove {path}" for path in self.stale)
        yield from (f"would copy {path}  {len(self.wanted[path]):,} bytes" for path in self.todo)
        if self.is_new:
            yield "would make the state's slots, if there are none"
        size = sum(len(self.wanted[path]) for path in self.todo)
        size += len(self.romfs.image) if self.romfs.differs else 0
        there = len(self.wanted) - len(self.todo)
        yield (
            f"would copy {size:,} bytes in {len(self.todo)} files; {there} are there already, "
            f"{len(self.stale)} to remove; nothing was changed"
        )

    def _looked_at(self) -> list[str]:
        own = [path for path in self.wanted if not path.startswith(LIBRARY)]
        unfinished = [path + UNFINISHED for path in {*own, SECRETS}]
        aside = [path + ASIDE for path in PROGRAMS]
        return [LIBRARY, *own, *unfinished, *aside]


def _folders(paths: Iterable[str]) -> set[str]:
    return {str(folder) for path in paths for folder in PurePosixPath(path).parents}


def _check_import(device: Device, build: Build) -> None:
    """Raise `BoardError`, before any change, if the build does not fit the firmware."""
    found = device.imported_from(CORE.name)
    deployed = found is None or found.startswith((LIBRARY, ROM))
    if build.form is Form.FROZEN and deployed:
        raise BoardError(
            f"the board's firmware has no {CORE.name} frozen in: build it with the board's "
            "manifest.py, or deploy with --mpy"
        )
    if build.form is not Form.FROZEN and not deployed:
        raise BoardError(
            f"the board has another {CORE.name}, {found}, which comes before {LIBRARY}: deploy "
            "with --frozen if it is the firmware's, else remove that copy with `mpremote rm -r`"
        )

"""Copy to a board what differs, so that it runs the old program, the new program, or none.

The programs are renamed before anything else changes and come back last, so an interrupted deploy
leaves nothing that starts. The next deploy continues.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from budget_cpython.board.build import CORE, DEPLOYED, LIBRARY, PROGRAMS, SECRETS, Build, Form
from budget_cpython.board.device import UNFINISHED, Device
from budget_cpython.board.errors import BoardError, DeviceError
from budget_cpython.board.romfs import Romfs
from budget_cpython.board.state import ASIDE, find_state

ROM = f"/rom/{CORE.name}"
LAST = (DEPLOYED, *PROGRAMS)
SMALLER = {
    Form.SOURCE: ", or deploy with --mpy",
    Form.MPY: ", or deploy with --romfs, or with --frozen to a firmware that has the core in it",
}
Say = Callable[[str], None]
_PROVISION = """
import settings
from budget_core import FileBudgetStore
FileBudgetStore(settings.STATE).provision()
"""


def refuse(trouble: list[str], force: bool, say: Say) -> None:
    """Raise `BoardError` if there is trouble; with `force` only say what it is."""
    if trouble and not force:
        raise BoardError("\n".join([*trouble, "nothing was changed; --force deploys all the same"]))
    for line in trouble:
        say(f"warning: {line}")


@dataclass
class Deploy:
    """One deploy of a build to a device; `say` gets a line for each step."""

    device: Device
    build: Build
    say: Say
    secrets: bytes | None = None
    found: dict[str, str] = field(init=False)
    copied: int = field(init=False, default=0)
    total: int = field(init=False, default=0)
    sent: int = field(init=False, default=0)

    def run(self) -> None:
        """Deploy what differs."""
        try:
            self._run()
        except DeviceError as error:
            more = SMALLER.get(self.build.form, "") if error.full else ""
            raise BoardError(f"{error}{more}") from None

    def _run(self) -> None:
        check_before(self.device, self.build)
        romfs = Romfs(self.device, self.build.image)
        self.found = self.device.digests(self._looked_at())
        new_board = DEPLOYED not in self.found
        todo = [path for path in self._wanted() if self._differs(path)]
        rest = [path for path in todo if path not in LAST]
        stale = self._stale()
        halted = any(path + ASIDE in self.found for path in PROGRAMS)
        if not (todo or stale or halted or romfs.differs):
            check_after(self.device, self.build)
            self.say(f"all {len(self._wanted())} files are there already: nothing to copy")
            return
        self.total = len(todo)
        self._stop()
        self._change(romfs, stale, rest)
        if new_board:
            self._provision()
        self._finish()
        self._sum_up(romfs, len(stale))

    def _change(self, romfs: Romfs, stale: list[str], rest: list[str]) -> None:
        """Change all files except the programs, while these are renamed."""
        if romfs.differs:
            self.sent += romfs.write(self.say)
        self._clean(stale)
        self.device.make_folders(rest)
        for path in rest:
            self._copy(path)
        self.device.connection.restart_idle()
        check_after(self.device, self.build)

    def _wanted(self) -> dict[str, bytes]:
        extra = {} if self.secrets is None else {SECRETS: self.secrets}
        return self.build.files | extra

    def _looked_at(self) -> list[str]:
        own = [path for path in self._wanted() if not path.startswith(LIBRARY)]
        unfinished = [path + UNFINISHED for path in {*own, SECRETS}]
        aside = [path + ASIDE for path in PROGRAMS]
        return [LIBRARY, *own, *unfinished, *aside]

    def _differs(self, path: str) -> bool:
        wanted = sha256(self._wanted()[path]).hexdigest()
        where = (path, path + ASIDE) if path in PROGRAMS else (path,)
        return all(self.found.get(place) != wanted for place in where)

    def _stale(self) -> list[str]:
        """Return the files to remove: they would be imported instead, or are of no use."""
        kept = {*self._wanted(), *(path + ASIDE for path in PROGRAMS)}
        return [path for path in self.found if path not in kept]

    def _stop(self) -> None:
        """Rename the programs: `main.py` first, as it needs `boot.py`."""
        for path in reversed(PROGRAMS):
            if path in self.found:
                self.device.rename(path, path + ASIDE)
                self.found[path + ASIDE] = self.found.pop(path)

    def _clean(self, stale: list[str]) -> None:
        if stale:
            self.device.remove(stale)
            more = f" and {len(stale) - 1} more" if stale[1:] else ""
            self.say(f"remove {stale[0]}{more}: not of this build")

    def _copy(self, path: str) -> None:
        data = self._wanted()[path]
        self.device.put(path, data)
        self.copied += 1
        self.sent += len(data)
        self.say(f"copy {path}  {len(data):,} bytes  ({self.copied} of {self.total})")

    def _provision(self) -> None:
        state, made = find_state(self.device)
        if not made:
            self.device.connection.run(_PROVISION)
            self.say(f"made the state's slots in {state}")

    def _finish(self) -> None:
        if self._differs(DEPLOYED):
            self._copy(DEPLOYED)
        for path in PROGRAMS:
            if self._differs(path):
                self._copy(path)
                if path + ASIDE in self.found:
                    self.device.remove([path + ASIDE])
            else:
                self.device.rename(path + ASIDE, path)

    def _sum_up(self, romfs: Romfs, stale: int) -> None:
        word = "file" if self.copied == 1 else "files"
        there = len(self._wanted()) - self.total
        image = f" and {romfs.what}" if romfs.differs else ""
        self.say(
            f"copied {self.copied} {word}{image}, {self.sent:,} bytes; "
            f"{there} were there already, {stale} removed"
        )


def check_before(device: Device, build: Build) -> None:
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


def check_after(device: Device, build: Build) -> None:
    """Raise `BoardError` if the board does not import the core that was deployed."""
    if build.form is Form.FROZEN:
        return
    place = ROM if build.form is Form.ROMFS else LIBRARY
    found = device.imported_from(CORE.name)
    if found is None or not found.startswith(place + "/"):
        raise BoardError(
            f"the board imports {found or 'nothing'} and not {place}: is that on its sys.path, "
            "before other copies?"
        )

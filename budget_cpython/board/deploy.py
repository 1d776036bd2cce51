"""Copy to a board what differs, so that it runs the old program, the new one, or none.

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
DEPLOYED_TO = ("/lib", "/rom", "/rom/lib")
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

    def run(self) -> bool:
        """Deploy; return whether anything changed."""
        try:
            return self._run()
        except DeviceError as error:
            if error.full:
                raise BoardError(f"{error}{SMALLER.get(self.build.form, '')}") from None
            raise

    def _run(self) -> bool:
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
            return False
        self.total = len(todo)
        self._stop()
        self._change(romfs, stale, rest)
        if new_board:
            self._provision()
        self._finish()
        self._sum_up(romfs, len(stale))
        return True

    def _change(self, romfs: Romfs, stale: list[str], rest: list[str]) -> None:
        """Change all files except the programs, while these are renamed."""
        if romfs.differs:
            self.sent += romfs.write(self.say)
        self._clean(stale)
        self.device.make_folders(rest)
        for path in rest:
            self._copy(path)
        if romfs.differs or any(path.startswith(LIBRARY) for path in [*rest, *stale]):
            self.device.restart_idle()
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
        if self.build.form in (Form.ROMFS, Form.FROZEN):
            self.device.remove_empty(LIBRARY)

    def _copy(self, path: str) -> None:
        data = self._wanted()[path]
        self.device.put(path, data)
        self.copied += 1
        self.sent += len(data)
        self.say(f"copy {path}  {len(data):,} bytes  ({self.copied} of {self.total})")

    def _provision(self) -> None:
        state, made = find_state(self.device)
        if not made:
            self.device.link.run(_PROVISION)
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


def secrets_missing(device: Device) -> bool:
    """Return whether a board has no secrets yet."""
    return not device.digests([SECRETS])


def state_lost(device: Device) -> str | None:
    """Return the folder of a deployed board's state if that is gone, else `None`."""
    state, made = find_state(device)
    return None if made else state


def check_before(device: Device, build: Build) -> None:
    """Raise `BoardError`, before any change, if the build does not fit the firmware."""
    own = device.loads(CORE.name, before=DEPLOYED_TO)
    if build.form is Form.FROZEN:
        if own is None:
            raise BoardError(
                f"the board's firmware has no {CORE.name} frozen in: build it with the board's "
                "manifest.py, or deploy with --mpy"
            )
    elif own is not None:
        raise BoardError(
            f"the board has another {CORE.name}, {own}, which comes before {LIBRARY}: deploy with "
            "--frozen if it is the firmware's, else remove that copy with `mpremote rm -r`"
        )


def check_after(device: Device, build: Build) -> None:
    """Raise `BoardError` if the board imports another copy of the core than the deployed one."""
    loaded = device.loads(CORE.name)
    if build.form is Form.FROZEN:
        place = "the firmware"
        right = loaded is not None and not loaded.startswith((LIBRARY, ROM))
    else:
        place = ROM if build.form is Form.ROMFS else LIBRARY
        right = loaded is not None and loaded.startswith(place + "/")
    if loaded is None:
        raise BoardError(f"the board does not find {place}: is it on its sys.path?")
    if not right:
        raise BoardError(f"the board loads {loaded} and not {place}: remove that copy")

"""Copy to a board what differs, so that it runs the old program, the new program, or none.

The programs are renamed before anything else changes and come back last, so an interrupted deploy
leaves nothing that starts. The next deploy continues.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from budget_cpython.board.build import CORE, LIBRARY, Build, Form
from budget_cpython.board.device import Device
from budget_cpython.board.errors import BoardError, DeviceError
from budget_cpython.board.plan import LAST, ROM, Plan
from budget_cpython.board.programs import DEPLOYED, PROGRAMS
from budget_cpython.board.state import ASIDE, find_state

Say = Callable[[str], None]
_PROVISION = """
import settings
from budget_core.file_store import FileBudgetStore
FileBudgetStore(settings.STATE).provision()
"""


@dataclass
class Deploy:
    """The steps of a plan; `say` gets a line for each."""

    plan: Plan
    say: Say
    copied: int = field(init=False, default=0)
    sent: int = field(init=False, default=0)

    def run(self) -> None:
        """Deploy what differs."""
        try:
            self._run()
        except DeviceError as error:
            smaller = self.plan.build.form.smaller if error.full else []
            raise BoardError(", or use ".join([str(error), *smaller])) from None

    def _run(self) -> None:
        plan = self.plan
        if not plan.changes:
            check_after(plan.device, plan.build)
            self.say(f"all {len(plan.wanted)} files are there already: nothing to copy")
            return
        self._stop()
        self._change()
        if plan.is_new:
            self._provision()
        self._finish()
        self._sum_up()

    def _change(self) -> None:
        """Change all files except the programs, while these are renamed."""
        plan = self.plan
        if plan.romfs.differs:
            self.sent += plan.romfs.write(self.say)
        self._clean()
        rest = [path for path in plan.todo if path not in LAST]
        plan.device.make_folders(rest)
        for path in rest:
            self._copy(path)
        plan.device.connection.restart_idle()
        check_after(plan.device, plan.build)

    def _stop(self) -> None:
        """Rename the programs: `main.py` first, as it needs `boot.py`."""
        found = self.plan.found
        for path in reversed(PROGRAMS):
            if path in found:
                self.plan.device.rename(path, path + ASIDE)
                found[path + ASIDE] = found.pop(path)

    def _clean(self) -> None:
        stale = self.plan.stale
        if stale:
            self.plan.device.remove(stale)
            more = f" and {len(stale) - 1} more" if stale[1:] else ""
            self.say(f"remove {stale[0]}{more}: not of this build")

    def _copy(self, path: str) -> None:
        data = self.plan.wanted[path]
        self.plan.device.put(path, data)
        self.copied += 1
        self.sent += len(data)
        self.say(f"copy {path}  {len(data):,} bytes  ({self.copied} of {len(self.plan.todo)})")

    def _provision(self) -> None:
        state, made = find_state(self.plan.device)
        if not made:
            self.plan.device.connection.run(_PROVISION)
            self.say(f"made the state's slots in {state}")

    def _finish(self) -> None:
        plan = self.plan
        if plan.differs(DEPLOYED):
            self._copy(DEPLOYED)
        for path in PROGRAMS:
            if plan.differs(path):
                self._copy(path)
                if path + ASIDE in plan.found:
                    plan.device.remove([path + ASIDE])
            else:
                plan.device.rename(path + ASIDE, path)

    def _sum_up(self) -> None:
        plan = self.plan
        word = "file" if self.copied == 1 else "files"
        image = f" and {plan.romfs.what}" if plan.romfs.differs else ""
        self.say(
            f"copied {self.copied} {word}{image}, {self.sent:,} bytes; "
            f"{len(plan.wanted) - len(plan.todo)} were there already, {len(plan.stale)} removed"
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

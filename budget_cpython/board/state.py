"""Report, reset and copy the budget state on a board."""

from pathlib import Path
from typing import Any

from budget_core.file_store import FileBudgetStore
from budget_cpython.board.device import UNFINISHED, Device, work_on
from budget_cpython.board.errors import BoardError
from budget_cpython.board.known_boards import known_boards
from budget_cpython.board.programs import PROGRAMS

WHOLE = {"newest", "older", "empty"}
ASIDE = ".off"  # the end of a program's name during a deploy
_REPORT = """
import json
try:
    import settings
    from budget_core.board.status import report
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
else:
    print(json.dumps(report(settings)))
"""
_RESET = """
import settings
from budget_core.board.device import open_store
store = open_store(settings)
store.clear()
store.provision()
"""
_STATE = """
import json, os, settings
try:
    made = os.stat(settings.STATE + "/made")[0] > 0
except OSError:
    made = False
print(json.dumps([settings.STATE, made]))
"""
_DEPLOYED = """
import json
try:
    from deployed import BOARD
except ImportError:
    BOARD = None
print(json.dumps(BOARD))
"""


def report_of(device: Device) -> dict[str, Any]:
    """Return the report of `budget_core.board.status` on a device."""
    report: dict[str, Any] = device.ask(_REPORT)
    if "missing" in report:
        raise BoardError(_why_missing(device, report["missing"]))
    return report


def report_of_port(port: str) -> dict[str, Any]:
    """Return a board's port, its name and its report; for one that fails its port and `error`.

    As in a report, `error` is `None` where all is well. `spent` is there if the board answered.
    """
    try:
        with work_on(port) as device:
            return {"port": port, "board": deployed_board(device), **report_of(device)}
    except BoardError as error:
        return {"port": port, "error": str(error)}


def _why_missing(device: Device, what: str) -> str:
    port, command = device.connection.port, deploy_command(device)
    if is_halted(device):
        return f"a deploy to the board at {port} was interrupted: repeat it, {command}"
    return f"the board at {port} has no microbudget ({what}): {command} copies it"


def is_halted(device: Device) -> bool:
    """Return whether a deploy to a device was interrupted: no program starts then."""
    return bool(device.digests(path + ASIDE for path in PROGRAMS))


def deploy_command(device: Device) -> str:
    """Return the command that deploys again what a device has."""
    deployed = deployed_board(device)
    return f"`microbudget board deploy {deployed if deployed in known_boards() else 'BOARD'}`"


def deployed_board(device: Device) -> str | None:
    """Return the name of the board that was deployed to a device, or `None`."""
    name: str | None = device.ask(_DEPLOYED)
    return name


def find_state(device: Device) -> tuple[str, bool]:
    """Return the folder of a deployed board's state, and whether the board was provisioned."""
    home, made = device.ask(_STATE)
    return home, made


def what_is_lost(report: dict[str, Any]) -> str:
    """Return what is lost with the state of a report."""
    if report["error"] is not None:
        return f"the state is damaged ({report['error']}); what it counted is lost already"
    return f"the board's count of {report['spent']:,} tokens spent is lost"


def reset(device: Device) -> None:
    """Make a new state, also if it is damaged or gone."""
    device.connection.run(_RESET)


def pull(device: Device, target: Path) -> int:
    """Copy the state from a device into a folder, verified; return the number of files."""
    report_of(device)  # raises if nothing is deployed
    home, _ = find_state(device)
    found = device.digests([home])
    digests = {path: found[path] for path in found if not path.endswith(UNFINISHED)}
    if not digests:
        raise BoardError(f"there is no state in {home} on the board")
    for path, data in device.get(digests).items():
        copy = target / path.removeprefix(home + "/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
    return len(digests)


def check_pulled(source: Path) -> list[str]:
    """Return the files of a state that was pulled; `BoardError` if it is not whole."""
    slots = FileBudgetStore(str(source)).slots()
    files = [*(f"{number}/state.json" for number in range(len(slots))), "made"]
    absent = [name for name in files if not (source / name).is_file()]
    if absent:
        raise BoardError(f"{source} is not a whole state: it has no {absent[0]} and was not pushed")
    for number, word in enumerate(slots):
        if word not in WHOLE:
            raise BoardError(f"slot {number} of {source} is {word}: it was not pushed")
    return files


def push(device: Device, source: Path, files: list[str]) -> None:
    """Copy a checked state to a device, verified."""
    home, _ = find_state(device)
    copies = {f"{home}/{name}": (source / name).read_bytes() for name in files}
    device.make_folders(copies)
    for path, data in copies.items():
        device.put(path, data)

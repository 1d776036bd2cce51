"""Report, reset and copy the budget state on a board."""

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from budget_core.errors import StoreError
from budget_core.file_store import FileBudgetStore
from budget_cpython.board.build import PROGRAMS
from budget_cpython.board.catalogue import known_boards
from budget_cpython.board.device import UNFINISHED, Device, work_on
from budget_cpython.board.errors import BoardError, in_words

WHOLE = {"newest", "older", "empty"}
DAY_S = 86_400
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
def kind(path):
    try:
        return os.stat(path)[0]
    except OSError:
        return 0
home = settings.STATE
print(json.dumps([home, kind(home) & 0x8000 > 0, kind(home + "/made") > 0]))
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
    """Return the report of `board.status` on a device, with `heap` as its program left it."""
    report: dict[str, Any] = device.with_room(lambda: device.ask(_REPORT))
    if "missing" in report:
        raise BoardError(_why_missing(device, report["missing"]))
    find_state(device)
    if report["error"] is not None:
        report["error"] = in_words(report["error"])
    return report | {"heap": device.heap}


def _why_missing(device: Device, what: str) -> str:
    deployed = deployed_board(device)
    command = f"`microbudget board deploy {deployed if deployed in known_boards() else 'BOARD'}`"
    if device.digests(path + ASIDE for path in PROGRAMS):
        return f"a deploy to the board at {device.link.port} was interrupted: repeat it, {command}"
    return f"the board at {device.link.port} has no microbudget ({what}): {command} copies it"


def deployed_board(device: Device) -> str | None:
    """Return the name of the board that was deployed to a device, or `None`."""
    name: str | None = device.ask(_DEPLOYED)
    return name


def describe(port: str) -> str:
    """Return a few words about the board at a port; its program is restarted."""
    try:
        with work_on(port) as device:
            return device.with_room(lambda: _describe(device))
    except BoardError as error:
        return str(error)


def _describe(device: Device) -> str:
    version = ".".join(map(str, device.check_firmware()))
    return f"MicroPython {version}, {deployed_board(device) or 'nothing of microbudget'}"


def find_state(device: Device) -> tuple[str, bool]:
    """Return the folder of a deployed board's state, and whether the board was provisioned."""
    home, is_file, made = device.ask(_STATE)
    if is_file:
        raise BoardError(
            f"{home} on the board is a file, not the folder of the state: remove it, as in "
            f"`mpremote rm :{home}`, and repeat this"
        )
    return home, made


def is_damaged(report: dict[str, Any]) -> bool:
    """Return whether a report's state cannot be trusted or read."""
    return report["error"] is not None


def lines(report: dict[str, Any]) -> list[str]:
    """Return a report as aligned lines of a word and its value."""
    cap, left, trusted = report["cap"], report["left"], report["trusted"]
    day = f"{datetime.fromtimestamp(report['day'] * DAY_S, UTC):%Y-%m-%d}"
    ends = f"{datetime.fromtimestamp(report['resets_at'], UTC):%Y-%m-%d %H:%M} UTC"
    rows = {
        "spent": f"{report['spent']:,} tokens" + ("" if cap is None else f" of {cap:,}"),
        "left": "no limit" if left is None else f"{left:,} tokens",
        "day": day if trusted else "not known",
        "resets": ends if trusted else "not known",
        "slots": ", ".join(report["slots"]),
        "clock": "trusted" if report["trusted"] else "not trusted: the day does not change",
    }
    if report["day"] and not trusted:
        rows["day"] += f"; the count of {day} continues"
    if report["ahead"]:
        rows["spent"] += f", up to {report['ahead']:,} of them ahead"
    if report["heap"] is not None:
        used, free = report["heap"]
        rows["heap"] = f"{used:,} bytes used, {free:,} free"
    if is_damaged(report):
        rows["damaged"] = f"{report['error']}; the day counts as spent until it ends or is reset"
    width = max(map(len, rows))
    return [f"{word:{width}}  {what}" for word, what in rows.items()]


def what_is_lost(report: dict[str, Any]) -> str:
    """Return what is lost with the state of a report."""
    if is_damaged(report):
        return f"the state is damaged ({report['error']}); what it counted is lost already"
    return f"the board's count of {report['spent']:,} tokens spent is lost"


def reset(device: Device) -> None:
    """Make a new state, also if it is damaged or gone."""
    find_state(device)
    device.with_room(lambda: device.link.run(_RESET))


def folder_of(device: Device) -> str:
    """Return the folder of the state on a device."""
    report_of(device)
    return find_state(device)[0]


def pull(device: Device, target: Path) -> int:
    """Copy the state from a device into a folder, verified; return the number of files."""
    home = folder_of(device)
    found = device.digests([home])
    digests = {path: found[path] for path in found if not path.endswith(UNFINISHED)}
    if not digests:
        raise BoardError(f"there is no state in {home} on the board")
    copies = {path: device.link.read(path) for path in digests}
    for path, data in copies.items():
        if sha256(data).hexdigest() != digests[path]:
            raise BoardError(f"{path} differs after the copy: try again")
    for path, data in copies.items():
        copy = target / path.removeprefix(home + "/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
    return len(copies)


def check_pulled(source: Path) -> list[str]:
    """Return the files of a state that was pulled; `BoardError` if it is not whole."""
    store = FileBudgetStore(str(source))
    slots = store.slots()
    files = [*(f"{number}/state.json" for number in range(len(slots))), "made"]
    absent = [name for name in files if not (source / name).is_file()]
    if absent:
        raise BoardError(f"{source} is not a whole state: it has no {absent[0]} and was not pushed")
    try:
        store.load()
    except StoreError as error:
        raise BoardError(f"{source} is damaged and was not pushed: {error}") from None
    for number, word in enumerate(slots):
        if word not in WHOLE:
            raise BoardError(f"slot {number} of {source} is {word}: it was not pushed")
    return files


def push(device: Device, source: Path, files: list[str]) -> None:
    """Copy a checked state to a device, verified."""
    home = folder_of(device)
    copies = {f"{home}/{name}": (source / name).read_bytes() for name in files}
    device.make_folders(copies)
    for path, data in copies.items():
        device.put(path, data)

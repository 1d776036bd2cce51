"""Check what is on a board: its firmware, the files of the deploy, and the budget's store."""

from budget_cpython.board.build import LIBRARY, ROMFS, Form, listed_files
from budget_cpython.board.device import OLDEST, Device
from budget_cpython.board.doctor.finding import probe
from budget_cpython.board.known_boards import known_boards
from budget_cpython.board.programs import DEPLOYED
from budget_cpython.board.romfs import look
from budget_cpython.board.state import WHOLE, deploy_command, deployed_board, is_halted, report_of
from budget_cpython.board.target import mismatches
from budget_cpython.finding import Finding, fails, ok, warning

_UPDATE = "install a stock MicroPython of 1.24 or later on the board: micropython.org/download"
_SHOWN = 3


def check_firmware(device: Device) -> Finding:
    """Check that the firmware is recent enough, and say which parts it has."""
    identity, parts = device.identity, probe(device, "firmware")
    name = "MicroPython" if identity.name == "micropython" else identity.name
    shown = f"{name} {'.'.join(map(str, identity.version))}, {identity.machine}"
    if there := [part for part, has in parts if has]:
        shown += f", with {', '.join(there)}"
    if lacking := [part for part, has in parts if not has]:
        shown += f"; without {', '.join(lacking)}"
    old = identity.name != "micropython" or identity.version < OLDEST
    return fails(shown, _UPDATE) if old or "asyncio" in lacking else ok(shown)


def check_deploy(device: Device) -> Finding:
    """Check that a deploy has finished, and say of which folder."""
    again = deploy_command(device)
    if is_halted(device):
        return fails("a deploy was interrupted: no program starts", f"repeat it: {again}")
    board = deployed_board(device)
    if board is None:
        return fails("nothing of microbudget is deployed", again)
    folder = known_boards().get(board)
    for trouble in [] if folder is None else mismatches(folder, device, Form.SOURCE):
        return warning(f"the folder {board}", trouble)
    return ok(f"the folder {board}")


def check_files(device: Device) -> Finding:
    """Check that the files on the board are those that were deployed."""
    again = deploy_command(device)
    listed = listed_files(device.connection.read(DEPLOYED))
    if not listed:
        return warning(f"{DEPLOYED} lists no files to compare with", f"deploy again: {again}")
    found = _digests(device, listed)
    differ = [path for path, digest in listed.items() if not found[path].startswith(digest)]
    if not differ:
        return ok(f"{len(listed)} as they were deployed")
    shown = ", ".join(differ[:_SHOWN]) + (f" and {len(differ) - _SHOWN} more" * (len(differ) > 3))
    lost = [path for path in differ if not found[path] or path.startswith((LIBRARY, ROMFS))]
    what = "missing or damaged" if lost else "changed on the board since the deploy"
    judge = fails if lost else warning
    return judge(f"{what}: {shown}", f"{again} copies what differs")


def _digests(device: Device, listed: dict[str, str]) -> dict[str, str]:
    """Return the hash of each listed file and image on the board, empty where it is missing."""
    found = device.digests(path for path in listed if path.startswith("/"))
    for name in listed:
        if name.startswith(ROMFS):
            partition = look(device, int(name.removeprefix(ROMFS)))
            found[name] = partition[2] if partition else ""
    return {path: found.get(path, "") for path in listed}


def check_store(device: Device) -> Finding:
    """Check the budget's slots, and say what is spent today."""
    report = report_of(device)
    slots, cap = report["slots"], report["cap"]
    shown = f"slots {', '.join(slots)}"
    if report["error"] is not None:
        again = "`microbudget board reset` begins the day again, with nothing spent"
        return fails(f"{shown}: {report['error']}", again)
    limit = "no limit" if cap is None else f"{cap:,}"
    shown += f"; {report['spent']:,} tokens of {limit} spent today"
    if broken := [word for word in slots if word not in WHOLE]:
        return warning(
            shown,
            f"none yet: the next saves write the {broken[0]} slot again; if it stays, the flash "
            "is worn",
        )
    if report["left"] == 0:
        return warning(shown, "wait for the next day, or deploy a higher DAILY_BUDGET")
    return ok(shown)

"""Ask a service for the devices that report to it."""

from contextlib import closing

from budget_core.errors import BudgetError
from budget_core.until import stamp
from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.ledger.http import Device, HttpLedger

HEADINGS = ("DEVICE", "LEFT", "ITS OWN DAY", "LAST CONTACT")
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def ask_service(url: str, key: str | None) -> list[Device]:
    """Return the devices of a service; `BoardError` if it cannot be asked or refuses."""
    try:
        with closing(HttpLedger(url, key)) as ledger:
            return ledger.devices()
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}") from None
    except BudgetError as error:
        raise BoardError(f"{url}: {error}") from None


def table(devices: list[Device], now: float) -> list[str]:
    """Return the lines of a table, the devices by account; `now` is in Unix seconds."""
    rows = [HEADINGS]
    for one in devices:
        rows.append((one.account, _left(one), _day(one, now), _contact(one, now)))
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]


def _left(device: Device) -> str:
    from budget_core.notices import show_on

    parts = []
    for axis, left in sorted(device.left.items()):
        show, unit = show_on(axis)
        parts.append(f"{show(left)}{unit}")
    return ", ".join(parts) or "no limit"


def _day(device: Device, now: float) -> str:
    spent = device.spent if not device.resets_at or now < device.resets_at else 0
    cap = "no limit" if device.cap is None else f"of {device.cap:,}"
    return f"{spent:,} {cap}"


def _contact(device: Device, now: float) -> str:
    passed = max(0, int(now) - device.seen_at)
    for seconds, unit in _UNITS:
        if passed >= seconds:
            return f"{stamp(device.seen_at)}, {passed // seconds} {unit} ago"
    return f"{stamp(device.seen_at)}, now"

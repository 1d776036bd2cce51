"""Show what boards report: one as lines, several as a table, and the devices of a service."""

from typing import TYPE_CHECKING, Any

from budget_core.notices import show_on
from budget_core.until import stamp
from budget_cpython.columns import columns

if TYPE_CHECKING:
    from budget_cpython.ledger.http import FleetDevice

_DAY_S = 86_400
_BOARDS = ("port", "board", "spent", "limit", "left", "resets", "clock")
_NUMBERS = [_BOARDS.index(name) for name in ("spent", "limit", "left")]
_DEVICES = ("DEVICE", "LEFT", "ITS OWN DAY", "LAST CONTACT")
_UNITS = ((_DAY_S, "d"), (3600, "h"), (60, "min"))


def report_lines(report: dict[str, Any]) -> list[str]:
    """Return a report as aligned lines of a word and its value."""
    cap, left, trusted = report["cap"], report["left"], report["trusted"]
    day = stamp(report["day"] * _DAY_S)[:10]
    rows = {
        "spent": f"{report['spent']:,} tokens" + ("" if cap is None else f" of {cap:,}"),
        "left": "no limit" if left is None else f"{left:,} tokens",
        "day": day if trusted else "not known",
        "resets": stamp(report["resets_at"]) if trusted else "not known",
        "slots": ", ".join(report["slots"]),
        "clock": "trusted" if trusted else "not trusted: the day does not change",
    }
    if report["day"] and not trusted:
        rows["day"] += f"; the count of {day} continues"
    if report["ahead"]:
        rows["spent"] += f", up to {report['ahead']:,} of them ahead"
    if report["error"] is not None:
        rows["damaged"] = f"{report['error']}; the day counts as spent until it ends or is reset"
    return columns(list(rows.items()))


def boards_table(reports: list[dict[str, Any]]) -> list[str]:
    """Return a line for each board below a head; the errors follow."""
    rows = [_row(report) for report in reports if "spent" in report]
    lines = columns([_BOARDS, *rows], _NUMBERS) if rows else []
    errors = [report for report in reports if report["error"] is not None]
    return lines + [f"{report['port']}: error: {report['error']}" for report in errors]


def _row(report: dict[str, Any]) -> tuple[str, ...]:
    cap, left, trusted = report["cap"], report["left"], report["trusted"]
    return (
        report["port"],
        report["board"] or "not known",
        f"{report['spent']:,}",
        "none" if cap is None else f"{cap:,}",
        "no limit" if left is None else f"{left:,}",
        stamp(report["resets_at"]) if trusted else "not known",
        "trusted" if trusted else "not trusted",
    )


def devices_table(devices: "list[FleetDevice]", now: float) -> list[str]:
    """Return the lines of a table, the devices by account; `now` is in Unix seconds."""
    rows = [(one.account, _left(one), _day(one, now), _contact(one, now)) for one in devices]
    return columns([_DEVICES, *rows])


def _left(device: "FleetDevice") -> str:
    parts = []
    for axis, left in sorted(device.left.items()):
        show, unit = show_on(axis)
        parts.append(f"{show(left)}{unit}")
    return ", ".join(parts) or "no limit"


def _day(device: "FleetDevice", now: float) -> str:
    spent = device.spent if not device.resets_at or now < device.resets_at else 0
    cap = "no limit" if device.cap is None else f"of {device.cap:,}"
    return f"{spent:,} {cap}"


def _contact(device: "FleetDevice", now: float) -> str:
    passed = max(0, int(now) - device.seen_at)
    for seconds, unit in _UNITS:
        if passed >= seconds:
            return f"{stamp(device.seen_at)}, {passed // seconds} {unit} ago"
    return f"{stamp(device.seen_at)}, now"

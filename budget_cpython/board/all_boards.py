"""Report the budgets of several boards, also where one of them does not answer."""

from typing import Any

from budget_core.until import stamp
from budget_cpython.board.device import work_on
from budget_cpython.board.errors import BoardError
from budget_cpython.board.state import deployed_board, report_of

_HEAD = ("port", "board", "spent", "limit", "left", "resets", "clock")
_NUMBERS = ("spent", "limit", "left")


def report_of_port(port: str) -> dict[str, Any]:
    """Return a board's port, its name and its report; for one that fails its port and `error`.

    As in a report, `error` is `None` where all is well. `spent` is there if the board answered.
    """
    try:
        with work_on(port) as device:
            return {"port": port, "board": deployed_board(device), **report_of(device)}
    except BoardError as error:
        return {"port": port, "error": str(error)}


def table(reports: list[dict[str, Any]]) -> list[str]:
    """Return a line for each board below a head; the errors follow."""
    rows = [_HEAD, *(_row(report) for report in reports if "spent" in report)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_aligned(row, widths) for row in rows if rows[1:]]
    errors = [report for report in reports if report["error"] is not None]
    return lines + [f"{report['port']}: error: {report['error']}" for report in errors]


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    cells = zip(_HEAD, row, widths, strict=True)
    sides = ((">" if name in _NUMBERS else "<", text, width) for name, text, width in cells)
    return "  ".join(f"{text:{side}{width}}" for side, text, width in sides).rstrip()


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

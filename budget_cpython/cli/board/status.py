"""`microbudget board status`."""

import argparse
import json
from typing import Any

from budget_cpython.board import PORT_VARIABLE
from budget_cpython.board.errors import UsageError
from budget_cpython.cli.board.command import PORT, add_command


def add_status(below: Any) -> None:
    """Add `status`."""
    examples = [
        "microbudget board status",
        "microbudget board status --json",
        "microbudget board status --all",
        "microbudget board status --all --port /dev/ttyACM0 --port /dev/ttyACM1",
    ]
    about = f"""\
The exit code is 1 if the budget's state is damaged.
{PORT}
With --all the boards are those at each --port, else at the ports in ${PORT_VARIABLE}, separated by
commas, else at all USB serial ports; a board that does not answer is an error in its place, and the
exit code is 1."""
    parser = add_command(
        below, _status, "show what the budget has spent and has left", examples, about, port=False
    )
    parser.add_argument("--all", action="store_true", help="show a table of all boards")
    parser.add_argument(
        "--port",
        action="append",
        help="the board's serial port, as in /dev/ttyACM0; with --all it may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _status(options: argparse.Namespace) -> int:
    ports: list[str] = options.port or []
    if options.all:
        return _status_of_all(ports, options.json)
    if ports[1:]:
        raise UsageError(f"--port was given {len(ports)} times: give one, or --all for a table")
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import report_of
    from budget_cpython.board.tables import report_lines

    with work_on(ports[0] if ports else None) as device:
        report = report_of(device)
    print(json.dumps(report) if options.json else "\n".join(report_lines(report)))
    return 0 if report["error"] is None else 1


def _status_of_all(ports: list[str], as_json: bool) -> int:
    from budget_cpython.board.connection import choose_ports
    from budget_cpython.board.state import report_of_port
    from budget_cpython.board.tables import boards_table

    reports = [report_of_port(port) for port in choose_ports(ports)]
    print(json.dumps(reports) if as_json else "\n".join(boards_table(reports)))
    return 1 if any(report["error"] is not None for report in reports) else 0

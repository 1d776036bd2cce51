"""`microbudget board list`, `status`, `doctor` and `fleet`, which change nothing."""

import argparse
import json
import os
import sys
import time
from contextlib import closing
from dataclasses import asdict

from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.cli.board.command import command

LEDGER_VARIABLE = "MICROBUDGET_LEDGER"
KEY_VARIABLE = "MICROBUDGET_KEY"


@command("")
def list_(options: argparse.Namespace) -> int:
    """Show the boards and the serial ports.

    examples:
      microbudget board list
    """
    from budget_cpython.board.connection import serial_ports
    from budget_cpython.board.known_boards import known_boards

    print("boards", *known_boards(), sep="\n  ")
    ports = serial_ports()
    print("serial ports" if ports else "no serial port found")
    for port, what in ports.items():
        print(f"  {port}  {what}".rstrip())
    return 0


@command("--all --port --json")
def status(options: argparse.Namespace) -> int:
    """Show what the budget has spent and has left.

    The exit code is 1 if the budget's state is damaged. With --all the boards are those at
    each --port, else at the ports in $MICROBUDGET_PORT, separated by commas, else at all USB serial
    ports; a board that does not answer is an error in its place, and the exit code is 1.

    examples:
      microbudget board status
      microbudget board status --json
      microbudget board status --all
      microbudget board status --all --port /dev/ttyACM0 --port /dev/ttyACM1
    """
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


@command("--port --json")
def doctor(options: argparse.Namespace) -> int:
    """Examine a board, part by part.

    Checks the connection, files that hide modules, the firmware, the deployed files, Wi-Fi, the
    clock, the endpoint with its certificates, a fleet's ledger, the budget's state, and the memory
    of a turn against a scripted model. It changes nothing on the board and uses no tokens. Each
    check is ok, a warning, fails or is not run, and says what to do. The exit code is 1 if one
    fails.

    examples:
      microbudget board doctor
      microbudget board doctor --json
    """
    from budget_cpython.board.connection import choose_port
    from budget_cpython.board.doctor import Result, examine

    port = choose_port(options.port)
    findings = []
    for check, finding in examine(port):
        findings.append((check, finding))
        if not options.json:
            print(finding.as_text(check), flush=True)
    failed = any(finding.result is Result.FAILS for _, finding in findings)
    if options.json:
        checks = [finding.as_json(check) for check, finding in findings]
        print(json.dumps({"port": port, "ok": not failed, "checks": checks}))
    return 1 if failed else 0


@command("--url --json")
def fleet(options: argparse.Namespace) -> int:
    """List the devices of a service and what they have left.

    Boards with a LEDGER in their settings report their own day with each request to the service.
    For each of them a line has what its account has left there, what its own day has used, and its
    last contact. The key is taken from $MICROBUDGET_KEY, and needs the right `read`. The exit code
    is 1 if the service cannot be reached or refuses the key.

    examples:
      microbudget board fleet --url http://127.0.0.1:8321
      MICROBUDGET_KEY=mb.operator.… microbudget board fleet --url http://host:8321 --json
    """
    from budget_core.errors import BudgetError
    from budget_cpython.board.tables import devices_table
    from budget_cpython.ledger.http import HttpLedger

    url = options.url or os.environ.get(LEDGER_VARIABLE)
    if not url:
        raise UsageError(f"give the service with --url, or set ${LEDGER_VARIABLE}")
    try:
        with closing(HttpLedger(url, os.environ.get(KEY_VARIABLE) or None)) as ledger:
            devices = ledger.devices()
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}") from None
    except BudgetError as error:
        raise BoardError(f"{url}: {error}") from None
    if options.json:
        print(json.dumps([asdict(one) for one in devices]))
    elif devices:
        print("\n".join(devices_table(devices, time.time())))
    else:
        print("no device has reported to the service yet", file=sys.stderr)
    return 0

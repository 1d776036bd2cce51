"""`microbudget board doctor`."""

import argparse
import json
from typing import Any

from budget_cpython.cli.board.command import add_command


def add_doctor(below: Any) -> None:
    """Add `doctor`."""
    examples = ["microbudget board doctor", "microbudget board doctor --json"]
    about = """\
Checks the connection, the firmware, the deployed files, Wi-Fi, the clock, the endpoint with its
certificates, a fleet's ledger, the budget's state, and the memory of a turn against a scripted
model. It changes nothing on the board and uses no tokens. Each check is ok, a warning, fails or is
not run, and says what to do. The exit code is 1 if one fails."""
    parser = add_command(below, _doctor, "examine a board, part by part", examples, about)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _doctor(options: argparse.Namespace) -> int:
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

"""The command `microbudget doctor`."""

import argparse
import os

from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import ledger_url, print_json, shown_place
from budget_cpython.cli.ops.screen import FAINT, GREEN, ORANGE, RED, Screen, cell
from budget_cpython.cli.options import KEYS_VARIABLE
from budget_cpython.cli.service import ledger_options
from budget_cpython.finding import Result
from budget_cpython.wall_clock import WALL

_STYLES = {
    Result.OK: GREEN,
    Result.WARNING: ORANGE,
    Result.FAILS: RED,
    Result.NOT_RUN: FAINT,
}


@command(f"{LEDGER} --json --keys")
def doctor(options: argparse.Namespace) -> int:
    """Examine the ledger and this machine, and say how to repair what is wrong.

    Checks that the engine answers, its clock, what it keeps through a crash, who may read and write
    its files, the file of keys, the age of the prices, and the versions of what is installed. It
    changes nothing. Each check is ok, a warning, fails or is not run, and says what to do.

    examples:
      microbudget doctor
      microbudget doctor --ledger postgresql:///budgets --keys keys.json
      microbudget doctor --json

    exit codes:
      0  no check fails; there may be warnings
      1  a check fails
    """
    from budget_cpython.ops.doctor import examine

    url = ledger_url(options)
    more = ledger_options(options, url)
    keys = options.keys or os.environ.get(KEYS_VARIABLE)
    screen = Screen()
    found = []
    for check, finding in examine(url, int(WALL()), more, keys):
        found.append((check, finding))
        if options.json:
            continue
        result = finding.result
        lines = finding.as_text(check).splitlines()
        width = len(result.value)
        first = [(lines[0][:width], _STYLES[result]), (lines[0][width:], "")]
        screen.show([first, *(cell(line) for line in lines[1:])])
    failed = any(finding.result is Result.FAILS for _, finding in found)
    if options.json:
        checks = [finding.as_json(check) for check, finding in found]
        print_json({"ledger": shown_place(url), "ok": not failed, "checks": checks})
    return 1 if failed else 0

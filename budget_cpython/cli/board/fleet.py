"""`microbudget board fleet`."""

import argparse
import json
import os
import sys
import time
from contextlib import closing
from dataclasses import asdict
from typing import Any

from budget_cpython.board.errors import BoardError, UsageError
from budget_cpython.cli.board.command import add_command

LEDGER_VARIABLE = "MICROBUDGET_LEDGER"
KEY_VARIABLE = "MICROBUDGET_KEY"


def add_fleet(below: Any) -> None:
    """Add `fleet`."""
    examples = [
        "microbudget board fleet --url http://127.0.0.1:8321",
        f"{KEY_VARIABLE}=mb.operator.… microbudget board fleet --url http://host:8321 --json",
    ]
    about = f"""\
Boards with a LEDGER in their settings report their own day with each request to the service. For
each of them a line has what its account has left there, what its own day has used, and its last
contact. The key is taken from ${KEY_VARIABLE}, and needs the right `read`. The exit code is 1 if
the service cannot be reached or refuses the key."""
    parser = add_command(
        below,
        _fleet,
        "list the devices of a service and what they have left",
        examples,
        about,
        False,
    )
    url = f"the service, as `microbudget serve` prints it; else ${LEDGER_VARIABLE}"
    parser.add_argument("--url", metavar="URL", help=url)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _fleet(options: argparse.Namespace) -> int:
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

"""The command `microbudget charge`."""

import argparse
from typing import Any

from budget_core.ledger.checks import check_path
from budget_core.ledger.errors import UnknownHoldError
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import agrees, opened_ledger, print_json
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.limit_changes import changed_by
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ops.words import limits_text

_NO_WINDOW = "run"


@command(f"PATH AMOUNTS {LEDGER} --json --key --yes")
def charge(options: argparse.Namespace) -> int:
    """Record amounts as spent.

    It counts on the account and on all above it, in their windows of now, also past their limits:
    for what was used where the ledger did not see it, or was forgotten by a copy that was restored.
    It is noted in the ledger, with your name. With the same --key it is recorded once, however
    often. AMOUNTS is as limits are, without a window: '$3.20 + 40 calls + 200k tokens'.

    examples:
      microbudget charge acme/research '$3.20 + 40 calls'
      microbudget charge acme '$12' --key invoice-2026-11 --yes
    """
    path, amounts = check_path(options.path), _amounts(options.amounts)
    shown = limits_text([(axis, amount, _NO_WINDOW) for axis, amount in amounts.items()])
    with opened_ledger(options) as ledger:
        is_known = options.key is not None and _knows(ledger, path, options.key)
        if not options.json:
            print(f"{path} is charged {shown}", flush=True)
        if not agrees(options.yes):
            return 1
        hold = ledger.charge(path, amounts, options.key)
        if not is_known:
            details = {"hold": hold.id, "amounts": amounts, "by": changed_by()}
            ledger.note([LedgerEvent("charged", path, details)])
    if options.json:
        print_json({"account": path, "id": hold.id, "amounts": amounts, "recorded": not is_known})
    else:
        print(f"recorded before with the key {options.key}" if is_known else "recorded")
    return 0


def _knows(ledger: Any, path: str, key: str) -> bool:
    try:
        ledger.hold(path, key)
    except UnknownHoldError:
        return False
    return True


def _amounts(text: str) -> dict[str, int]:
    """Return the amounts of a line by axis; `ValueError` for a window."""
    limits = parse_limits(text)
    for limit in limits:
        if limit.window != _NO_WINDOW:
            raise ValueError(f"{text!r} has a window: amounts have none, as in '$3.20 + 40 calls'")
    return {limit.axis: limit.cap for limit in limits if limit.cap is not None}

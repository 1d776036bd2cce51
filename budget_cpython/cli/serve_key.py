"""The command `microbudget serve key`."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from budget_cpython.cli.command import Group, command
from budget_cpython.cli.options import KEYS_VARIABLE
from budget_cpython.cli.service import open_keys
from budget_cpython.columns import columns

if TYPE_CHECKING:
    from budget_cpython.web.keys import KeyFile


@command("NAME --keys --account --rights", "serve")
def _add(options: argparse.Namespace) -> int:
    """Make a key and print it; it is shown only once.

    rights, on the account and all below it; a device that leases blocks needs the first three:
      reserve  hold amounts before calls, and settle, extend and release holds
      charge   record amounts as spent, also past the limits of the account and of those above it
      read     balances, histories, limits, holds, events, usage
      limits   change limits, also those of the account itself, and note events: for operators

    examples:
      microbudget serve key add pico --account org/lab --keys keys.json
    """
    print(_needed_keys(options).add(options.name, options.account, options.rights))
    return 0


@command("--keys", "serve")
def _list(options: argparse.Namespace) -> int:
    """Show the keys' names, accounts and rights.

    examples:
      microbudget serve key list --keys keys.json
    """
    keys = _needed_keys(options).keys().values()
    rows = [(key.name, _day(key.made_at), ",".join(key.rights), key.account) for key in keys]
    for line in columns(rows):
        print(line)
    if not rows:
        print("no keys", file=sys.stderr)
    return 0


def _day(made_at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(made_at))


@command("NAME --keys", "serve")
def _revoke(options: argparse.Namespace) -> int:
    """Remove a key.

    examples:
      microbudget serve key revoke pico --keys keys.json

    """
    _needed_keys(options).revoke(options.name)
    return 0


def _needed_keys(options: argparse.Namespace) -> "KeyFile":
    keys = open_keys(options)
    if keys is None:
        raise ValueError(f"give the file of keys with --keys, or set ${KEYS_VARIABLE}")
    return keys


key = Group(
    "key",
    "Make, list and revoke keys.",
    (_add, _list, _revoke),
    "A running service uses a change at once.",
    {"epilog": None},
)

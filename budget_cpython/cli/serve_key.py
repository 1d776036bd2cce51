"""The command `microbudget serve key`."""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from budget_cpython.cli.service_options import KEYS_HELP, KEYS_VARIABLE, open_keys, run_command
from budget_cpython.columns import columns

if TYPE_CHECKING:
    from budget_cpython.serve import KeyFile

DEFAULT_RIGHTS = "reserve,read"
_RIGHTS = """\
rights, on the account and all below it; a device that leases blocks needs the first three:
  reserve  hold amounts before calls, and settle, extend and release holds
  charge   record amounts as spent, also past the limits of the account and of those above it
  read     balances, histories, limits, holds
  limits   change limits, also those of the account itself: for operators"""


def add_key(commands: Any) -> None:
    """Add `key` and its subcommands."""
    text = "make, list and revoke keys"
    about = f"{text.capitalize()}; a running service uses a change at once."
    key = commands.add_parser("key", help=text, description=about)
    below = key.add_subparsers(metavar="COMMAND", required=True)
    add = _command(below, "add", "make a key and print it; it is shown only once", _add, _RIGHTS)
    add.add_argument("name", metavar="NAME", help="its name: letters, digits, _ and -")
    account = "its account, and all below it; * is every account"
    add.add_argument("--account", required=True, metavar="PATH", help=account)
    rights = f"its rights ({DEFAULT_RIGHTS})"
    add.add_argument(
        "--rights",
        default=DEFAULT_RIGHTS.split(","),
        type=split_names,
        metavar="RIGHT,…",
        help=rights,
    )
    _command(below, "list", "show the keys' names, accounts and rights", _list)
    revoke = _command(below, "revoke", "remove a key", _revoke)
    revoke.add_argument("name", metavar="NAME", help="its name")


def _command(
    commands: Any,
    name: str,
    summary: str,
    command: Callable[[argparse.Namespace], int],
    epilog: str = "",
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = argparse.SUPPRESS  # keeps a --keys before the command
    parser.add_argument("--keys", metavar="FILE", default=default, help=KEYS_HELP)
    parser.set_defaults(run=partial(run_command, command, "serve"))
    return parser


def split_names(text: str) -> list[str]:
    """Read names with commas between them."""
    return text.split(",")


def _add(options: argparse.Namespace) -> int:
    print(_needed_keys(options).add(options.name, options.account, options.rights))
    return 0


def _list(options: argparse.Namespace) -> int:
    keys = _needed_keys(options).keys().values()
    rows = [(key.name, _day(key.made_at), ",".join(key.rights), key.account) for key in keys]
    for line in columns(rows):
        print(line)
    if not rows:
        print("no keys", file=sys.stderr)
    return 0


def _day(made_at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(made_at))


def _revoke(options: argparse.Namespace) -> int:
    _needed_keys(options).revoke(options.name)
    return 0


def _needed_keys(options: argparse.Namespace) -> "KeyFile":
    keys = open_keys(options)
    if keys is None:
        raise ValueError(f"give the file of keys with --keys, or set ${KEYS_VARIABLE}")
    return keys

"""The commands `microbudget serve` and `microbudget serve key`."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from budget_core.errors import BudgetError
from budget_cpython.cli.alerts import add_alert_file, read_channels, watching_for
from budget_cpython.cli.service_options import (
    ENGINE_VARIABLE,
    KEYS_HELP,
    KEYS_VARIABLE,
    add_connections,
    add_listening,
    add_metrics,
    add_number,
    metrics_of,
    open_keys,
    prepare_service,
    run_command,
    seconds,
    warn,
)
from budget_cpython.columns import columns

if TYPE_CHECKING:
    from budget_core.ledger._types import LedgerProtocol
    from budget_cpython.serve import KeyFile

LISTEN = "127.0.0.1:8321"
DEFAULT_RIGHTS = "reserve,read"
CLOSING_S = 5
_ABOUT = """\
Serve one ledger over HTTP, so that devices and programs in any language share its budgets.

The first line printed is the URL. SIGTERM or Ctrl-C stops it: it answers the requests that it has
received, then closes the engine. /openapi.json describes the API, /healthz tells that the service
runs, /readyz that the engine answers. Without --keys every request may do everything, so it listens
on this machine only. For TLS use a reverse proxy or --ssl-certfile."""
_EXAMPLES = """\
examples:
  microbudget serve --engine sqlite:ledger.db
  microbudget serve key add pico --account org/lab --rights reserve,charge,read --keys keys.json
  microbudget serve --engine redis://localhost --listen 0.0.0.0:8321 --keys keys.json
  curl -X PUT localhost:8321/v1/limits/org -H 'Content-Type: application/json' \\
      -d '{"limits": [{"axis": "tokens", "cap": 100000, "window": "day"}]}'"""
_RIGHTS = """\
rights, on the account and all below it; a device that leases blocks needs the first three:
  reserve  hold amounts before calls, and settle, extend and release holds
  charge   record amounts as spent, also past the limits of the account and of those above it
  read     balances, histories, limits, holds
  limits   change limits, also those of the account itself: for operators"""


def add_serve(commands: Any) -> None:
    """Add `serve` and its subcommands."""
    serve = commands.add_parser(
        "serve",
        help="serve a ledger over HTTP to devices and other languages",
        usage="%(prog)s [options]\n       %(prog)s key COMMAND ...",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    engine = "the ledger: memory:, sqlite:FILE, redis://…, postgresql://…; or set "
    engine += f"${ENGINE_VARIABLE}, which keeps a password out of the list of processes"
    option = serve.add_argument
    option("--engine", metavar="URL", help=engine)
    create = "refuse an SQLite file that does not exist, instead of making it"
    option("--no-create", action="store_true", help=create)
    add_listening(option, LISTEN)
    axes = "the only axes, as in tokens,calls (tokens, calls, usd and those of limits)"
    option("--axes", type=_split, metavar="AXIS,…", help=axes)
    holds = "for memory:, the most live holds (1000000)"
    option("--max-holds", type=int, metavar="N", help=holds)
    add_number(option, "engine-timeout", seconds, 10, "the engine has S seconds to answer")
    add_alert_file(option)
    add_metrics(option)
    add_connections(option, 20)
    serve.set_defaults(run=partial(run_command, _serve, "serve"))
    _add_key(serve.add_subparsers(metavar="COMMAND", prog=serve.prog))


def _add_key(commands: Any) -> None:
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
        "--rights", default=DEFAULT_RIGHTS.split(","), type=_split, metavar="RIGHT,…", help=rights
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


def _split(text: str) -> list[str]:
    return text.split(",")


def _serve(options: argparse.Namespace) -> int:
    """Serve a ledger until told to stop."""
    from budget_cpython.serve import make_app

    serve = prepare_service(options)
    channels = read_channels(options.alerts)
    ledger = _open_ledger(options)
    try:
        app = make_app(
            ledger,
            open_keys(options),
            engine_timeout=options.engine_timeout,
            metrics=metrics_of(options),
        )
        with watching_for(channels, lambda: ledger):
            code = serve(app)
    finally:
        closing = threading.Thread(target=ledger.close, daemon=True)
        closing.start()
        closing.join(CLOSING_S)
    os._exit(code)  # waits for no thread: one may hang in the engine


def _open_ledger(options: argparse.Namespace) -> "LedgerProtocol":
    """Open the ledger, and ask it once: a file that cannot be used is an error at once."""
    from budget_cpython.ledger.opening import open_ledger
    from budget_cpython.serve.devices import AXES

    url = options.engine or os.environ.get(ENGINE_VARIABLE)
    if not url:
        text = f"give the ledger's engine with --engine, or set ${ENGINE_VARIABLE}; try sqlite:FILE"
        raise ValueError(text)
    axes = options.axes and [*options.axes, *AXES]
    more: dict[str, Any] = {"axes": axes, "max_holds": options.max_holds}
    more = {name: value for name, value in more.items() if value is not None}
    if options.no_create:
        if not url.startswith("sqlite:"):
            raise ValueError("--no-create is for sqlite: only")
        more["create"] = False
    if "max_holds" in more and url != "memory:":
        raise ValueError("--max-holds is for memory: only")
    if "axes" in more and url.startswith("http"):
        raise ValueError("--axes is not for a ledger that another service serves")
    ledger = open_ledger(url, **more)
    try:
        ledger.limits("readyz")
    except BudgetError as error:
        if url.startswith("sqlite:"):
            raise
        warn(f"the ledger cannot be used yet: {error}")
    return ledger


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

"""What `microbudget serve` understands; what it does is loaded when a command runs."""

import argparse
from collections.abc import Callable
from typing import Any

ENGINE_VARIABLE = "MICROBUDGET_ENGINE"
KEYS_VARIABLE = "MICROBUDGET_KEYS"
LISTEN = "127.0.0.1:8321"
DEVICE_RIGHTS = "reserve,charge,read"
_ABOUT = """\
Serve one ledger over HTTP, so that devices and programs in any language share its budgets.

The first line printed is the URL. SIGTERM or Ctrl-C stops it: what was asked is answered, then the
engine is closed. The API is described at /openapi.json; /healthz tells that the service runs,
/readyz that the engine answers. Without --keys, whoever reaches it may do everything, so that it
listens on this machine only. TLS is a proxy's work, or that of --ssl-certfile."""
_EXAMPLES = """\
examples:
  microbudget serve --engine sqlite:ledger.db
  microbudget serve key add pico --account org/lab --keys keys.json
  microbudget serve --engine redis://localhost --listen 0.0.0.0:8321 --keys keys.json
  curl -X PUT localhost:8321/v1/limits/org -H 'Content-Type: application/json' \\
      -d '{"limits": [{"axis": "tokens", "cap": 100000, "window": "day"}]}'"""
_RIGHTS = """\
rights, on the account and all below it; a device that leases blocks of it needs the first three:
  reserve  hold amounts before calls, and settle, extend and give back holds
  charge   record amounts without asking
  read     balances, histories, limits, holds
  limits   change the limits, those of the account itself included: for operators"""


def add_serve(commands: Any) -> None:
    """Add `serve` and what stands below it."""
    serve = commands.add_parser(
        "serve",
        help="serve a ledger over HTTP to devices and other languages",
        usage="%(prog)s [options]\n       %(prog)s key COMMAND ...",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument(
        "--engine",
        metavar="URL",
        help="the ledger: memory:, sqlite:FILE, redis://…, postgresql://…; or in "
        f"${ENGINE_VARIABLE}, where no list of processes shows its password",
    )
    serve.add_argument(
        "--listen",
        default=LISTEN,
        metavar="PLACE",
        help=f"HOST:PORT, 0 for a free port, or unix:PATH ({LISTEN})",
    )
    serve.add_argument("--keys", metavar="FILE", help=f"who may ask; or in ${KEYS_VARIABLE}")
    serve.add_argument(
        "--axes",
        type=lambda text: text.split(","),
        metavar="AXIS,…",
        help="the only axes that are counted, as in tokens,calls (any)",
    )
    serve.add_argument(
        "--max-holds",
        type=int,
        metavar="N",
        help="of memory:, how many holds may be live at a time (1000000)",
    )
    for name, default, text in (
        ("expire-every", 10.0, "look for holds that are over every S seconds"),
        ("engine-timeout", 10.0, "give the engine S seconds for an answer"),
        ("grace", 20.0, "when told to stop, give what was asked S seconds"),
    ):
        serve.add_argument(
            f"--{name}", type=_seconds, default=default, metavar="S", help=f"{text} ({default:g})"
        )
    serve.add_argument("--ssl-certfile", metavar="FILE", help="serve https with this certificate")
    serve.add_argument("--ssl-keyfile", metavar="FILE", help="and this private key")
    serve.add_argument("--access-log", action="store_true", help="a line for each request")
    serve.set_defaults(run=_lazily("serve"))
    _add_key(serve.add_subparsers(metavar="COMMAND", prog=serve.prog))


def _add_key(below: Any) -> None:
    key = below.add_parser(
        "key",
        help="make, list and revoke keys",
        description="Make, list and revoke keys; a service that runs heeds it at once.",
    )
    commands = key.add_subparsers(metavar="COMMAND", required=True)
    add = _command(
        commands,
        "add",
        "make a key and print it; it is shown only now, and stored nowhere",
        _RIGHTS,
    )
    add.add_argument("name", metavar="NAME", help="what to call it: letters, digits, _ and -")
    add.add_argument(
        "--account", required=True, metavar="PATH", help="its account, and all below it; * for any"
    )
    add.add_argument(
        "--rights",
        default=DEVICE_RIGHTS,
        type=lambda text: text.split(","),
        metavar="RIGHT,…",
        help=f"what it may do ({DEVICE_RIGHTS})",
    )
    _command(commands, "list", "show the keys' names, accounts and rights")
    revoke = _command(commands, "revoke", "let a key in no more")
    revoke.add_argument("name", metavar="NAME", help="its name")


def _command(commands: Any, name: str, summary: str, more: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--keys",
        metavar="FILE",
        default=argparse.SUPPRESS,  # what was given before the command stands
        help=f"the file; or in ${KEYS_VARIABLE}",
    )
    parser.set_defaults(run=_lazily(f"{name}_key"))
    return parser


def _lazily(name: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        from budget_cpython.cli import serve_commands

        return serve_commands.run(getattr(serve_commands, name), options)

    return run


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"seconds above 0, up to 86400, not {text!r}")
    return value

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

if TYPE_CHECKING:
    from budget_core.ledger._types import LedgerProtocol
    from budget_cpython.serve import KeyFile

ENGINE_VARIABLE = "MICROBUDGET_ENGINE"
KEYS_VARIABLE = "MICROBUDGET_KEYS"
LISTEN = "127.0.0.1:8321"
DEFAULT_RIGHTS = "reserve,read"
CLOSING_S = 5
USAGE = 2
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
_KEYS_HELP = f"the file of keys; or set ${KEYS_VARIABLE}"


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
    address = f"HOST:PORT, with port 0 for a free one, or unix:PATH ({LISTEN})"
    option = serve.add_argument
    option("--engine", metavar="URL", help=engine)
    create = "refuse an SQLite file that does not exist, instead of making it"
    option("--no-create", action="store_true", help=create)
    option("--listen", default=LISTEN, metavar="ADDRESS", help=address)
    option("--keys", metavar="FILE", help=_KEYS_HELP)
    axes = "the only axes, as in tokens,calls (tokens, calls, usd and those of limits)"
    option("--axes", type=_split, metavar="AXIS,…", help=axes)
    holds = "for memory:, the most live holds (1000000)"
    option("--max-holds", type=int, metavar="N", help=holds)
    for name, count, text in (
        ("connections", 1000, "the most connections; a new one takes the place of a stalled one"),
        # More than may wait for holds at once, so that those who settle holds get through.
        ("connections-per-address", 600, "the most of one client's address; more behind a proxy"),
    ):
        option(f"--{name}", type=_count, default=count, metavar="N", help=f"{text} ({count})")
    for name, default, text in (
        ("idle-timeout", 30.0, "close a connection without progress for S seconds"),
        ("engine-timeout", 10.0, "the engine has S seconds to answer"),
        ("grace", 20.0, "when stopped, answer requests for up to S seconds"),
    ):
        text = f"{text} ({default:g})"
        option(f"--{name}", type=_seconds, default=default, metavar="S", help=text)
    option("--ssl-certfile", metavar="FILE", help="serve https with this certificate")
    option("--ssl-keyfile", metavar="FILE", help="and this private key")
    option("--access-log", action="store_true", help="log each request on stderr")
    serve.set_defaults(run=partial(_run, _serve))
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
    parser.add_argument("--keys", metavar="FILE", default=default, help=_KEYS_HELP)
    parser.set_defaults(run=partial(_run, command))
    return parser


def _split(text: str) -> list[str]:
    return text.split(",")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"a number from 1 to 1000000, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"seconds above 0, up to 86400, not {text!r}")
    return value


def _run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command; print an error as one line, and return the exit code."""
    try:
        return command(options)
    except ModuleNotFoundError as error:
        print(f"error: {error}: pip install 'microbudget[serve]'", file=sys.stderr)
        return 1
    except (ValueError, BudgetError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE if isinstance(error, ValueError) else 1


def _serve(options: argparse.Namespace) -> int:
    """Serve a ledger until told to stop."""
    from budget_cpython.serve import make_app
    from budget_cpython.serve.addresses import ListenAddress
    from budget_cpython.serve.connections import ConnectionLimits, allow_connections
    from budget_cpython.serve.server import run_service

    address = ListenAddress.parse(options.listen)
    keys = _keys(options)
    if options.ssl_keyfile and not options.ssl_certfile:
        raise ValueError("--ssl-keyfile needs --ssl-certfile")
    certificate = options.ssl_certfile and (options.ssl_certfile, options.ssl_keyfile)
    if keys is None and not address.is_local:
        text = f"other machines can reach {address}: give --keys FILE, or listen on 127.0.0.1"
        raise ValueError(text)
    if keys is not None:
        if not keys.keys():
            _warn(f"{keys.path!r} has no key: every request is refused")
        if not address.is_local and not certificate:
            _warn("keys travel unencrypted: use a reverse proxy with TLS, or give --ssl-certfile")
    allowed = allow_connections(options.connections)
    if allowed < options.connections:
        _warn(f"the system allows {allowed} connections: raise its limit of files, as by ulimit -n")
    limits = ConnectionLimits(allowed, options.connections_per_address, options.idle_timeout)
    ledger = _open_ledger(options)
    try:
        code = run_service(
            make_app(ledger, keys, engine_timeout=options.engine_timeout),
            address,
            limits,
            grace=options.grace,
            access_log=options.access_log,
            certificate=certificate,
        )
    except OSError as error:
        text = f"with {' and '.join(filter(None, certificate))}: " if certificate else ""
        raise OSError(f"cannot serve on {address}: {text}{error.strerror or error}") from error
    finally:
        closing = threading.Thread(target=ledger.close, daemon=True)
        closing.start()
        closing.join(CLOSING_S)
    os._exit(code)  # waits for no thread: one may hang in the engine


def _open_ledger(options: argparse.Namespace) -> "LedgerProtocol":
    """Open the ledger, and ask it once: a file that cannot be used is an error at once."""
    from budget_cpython.ledger.opening import open_ledger

    url = options.engine or os.environ.get(ENGINE_VARIABLE)
    if not url:
        text = f"give the ledger's engine with --engine, or set ${ENGINE_VARIABLE}; try sqlite:FILE"
        raise ValueError(text)
    more: dict[str, Any] = {"axes": options.axes, "max_holds": options.max_holds}
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
        _warn(f"the ledger cannot be used yet: {error}")
    return ledger


def _add(options: argparse.Namespace) -> int:
    print(_needed_keys(options).add(options.name, options.account, options.rights))
    return 0


def _list(options: argparse.Namespace) -> int:
    keys = _needed_keys(options).keys()
    width = max(map(len, keys), default=0)
    for key in keys.values():
        made = time.strftime("%Y-%m-%d", time.gmtime(key.made_at))
        print(f"{key.name:{width}}  {made}  {','.join(key.rights)}  {key.account}")
    if not keys:
        print("no keys", file=sys.stderr)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    _needed_keys(options).revoke(options.name)
    return 0


def _keys(options: argparse.Namespace) -> "KeyFile | None":
    from budget_cpython.serve import KeyFile

    path = options.keys or os.environ.get(KEYS_VARIABLE)
    return KeyFile(path) if path else None


def _needed_keys(options: argparse.Namespace) -> "KeyFile":
    keys = _keys(options)
    if keys is None:
        raise ValueError(f"give the file of keys with --keys, or set ${KEYS_VARIABLE}")
    return keys


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)

"""What the commands that serve share: their options, where they listen, and their errors."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from budget_core.errors import BudgetError

if TYPE_CHECKING:
    from budget_cpython.serve import KeyFile
    from budget_cpython.serve.addresses import ListenAddress
    from budget_cpython.serve.connections import ConnectionLimits

ENGINE_VARIABLE = "MICROBUDGET_ENGINE"
KEYS_VARIABLE = "MICROBUDGET_KEYS"
KEYS_HELP = f"the file of keys; or set ${KEYS_VARIABLE}"
USAGE = 2


def add_listening(option: Callable[..., Any], listen: str) -> None:
    """Add the options of where to listen and whom to answer."""
    address = f"HOST:PORT, with port 0 for a free one, or unix:PATH ({listen})"
    option("--listen", default=listen, metavar="ADDRESS", help=address)
    option("--keys", metavar="FILE", help=KEYS_HELP)


def add_connections(option: Callable[..., Any], grace: float) -> None:
    """Add the options of connections: how many, for how long, and with which certificate."""
    for name, number, text in (
        ("connections", 1000, "the most connections; a new one takes the place of a stalled one"),
        # More than may wait for holds at once, so that those who settle holds get through.
        ("connections-per-address", 600, "the most of one client's address; more behind a proxy"),
    ):
        option(f"--{name}", type=count, default=number, metavar="N", help=f"{text} ({number})")
    for name, default, text in (
        ("idle-timeout", 30.0, "close a connection without progress for S seconds"),
        ("grace", grace, "when stopped, answer requests for up to S seconds"),
    ):
        text = f"{text} ({default:g})"
        option(f"--{name}", type=seconds, default=default, metavar="S", help=text)
    option("--ssl-certfile", metavar="FILE", help="serve https with this certificate")
    option("--ssl-keyfile", metavar="FILE", help="and this private key")
    option("--access-log", action="store_true", help="log each request on stderr")


def count(text: str) -> int:
    """Read a number of connections and the like."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:8]) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"a number from 1 to 1000000, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a time."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"seconds above 0, up to 86400, not {text!r}")
    return value


def run_command(
    command: Callable[[argparse.Namespace], int], extra: str, options: argparse.Namespace
) -> int:
    """Run a command; print an error as one line, and return the exit code.

    `extra` is what to install for a package that is missing.
    """
    try:
        return command(options)
    except ModuleNotFoundError as error:
        print(f"error: {error}: pip install 'microbudget[{extra}]'", file=sys.stderr)
        return 1
    except (ValueError, BudgetError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE if isinstance(error, ValueError) else 1


def warn(text: str) -> None:
    """Print a warning."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def open_keys(options: argparse.Namespace) -> "KeyFile | None":
    """Return the file of keys, or `None` if there is none."""
    from budget_cpython.serve import KeyFile

    path = options.keys or os.environ.get(KEYS_VARIABLE)
    return KeyFile(path) if path else None


def check_listening(
    options: argparse.Namespace, keys: "KeyFile | None"
) -> "tuple[ListenAddress, ConnectionLimits, tuple[str, str | None] | None]":
    """Return where to listen, the limits of connections, and the certificate if there is one.

    Raises `ValueError` for an address that others reach, where there are no keys.
    """
    from budget_cpython.serve.addresses import ListenAddress
    from budget_cpython.serve.connections import ConnectionLimits, allow_connections

    address = ListenAddress.parse(options.listen)
    if options.ssl_keyfile and not options.ssl_certfile:
        raise ValueError("--ssl-keyfile needs --ssl-certfile")
    certificate = options.ssl_certfile and (options.ssl_certfile, options.ssl_keyfile)
    if keys is None and not address.is_local:
        text = f"other machines can reach {address}: give --keys FILE, or listen on 127.0.0.1"
        raise ValueError(text)
    if keys is not None:
        if not keys.keys():
            warn(f"{keys.path!r} has no key: every request is refused")
        if not address.is_local and not certificate:
            warn("keys travel unencrypted: use a reverse proxy with TLS, or give --ssl-certfile")
    allowed = allow_connections(options.connections)
    if allowed < options.connections:
        warn(f"the system allows {allowed} connections: raise its limit of files, as by ulimit -n")
    limits = ConnectionLimits(allowed, options.connections_per_address, options.idle_timeout)
    return address, limits, certificate


def cannot_serve(
    error: OSError, address: "ListenAddress", certificate: "tuple[str, str | None] | None"
) -> OSError:
    """Return the error that says where it cannot be served."""
    text = f"with {' and '.join(filter(None, certificate))}: " if certificate else ""
    return OSError(f"cannot serve on {address}: {text}{error.strerror or error}")

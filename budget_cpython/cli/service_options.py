"""What the commands `run`, `serve` and `proxy` share: options, where to listen, and errors."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from budget_core.errors import BudgetError
from budget_cpython.ledger.default_ledger import ENGINE_VARIABLE as ENGINE_VARIABLE

if TYPE_CHECKING:
    from budget_cpython.serve import KeyFile
    from budget_cpython.serve.addresses import ListenAddress

KEYS_VARIABLE = "MICROBUDGET_KEYS"
KEYS_HELP = f"the file of keys; or set ${KEYS_VARIABLE}"
USAGE = 2


def add_number(
    option: Callable[..., Any],
    name: str,
    kind: Callable[[str], float],
    default: float | None,
    text: str,
) -> None:
    """Add an option with `seconds` or a `count`, and its default to its help."""
    shown = text if default is None else f"{text} ({default:g})"
    metavar = "S" if kind is seconds else "N"
    option(f"--{name}", type=kind, default=default, metavar=metavar, help=shown)


def add_call_rules(option: Callable[..., Any]) -> None:
    """Add the options of how calls within a budget go."""
    text = "tell the model of limits, and withdraw its tools near them"
    option("--notices", action="store_true", help=text)
    text = "refuse requests that are not known model calls; without it each that is not free "
    text += "counts as one call"
    option("--strict", action="store_true", help=text)
    text = "the model that answers when the one asked for does not fit the budget"
    option("--fallback-model", metavar="MODEL", help=text)
    add_number(option, "wait", seconds, None, "a call waits up to S seconds for what others hold")
    text = "refuse a call that would be the Nth in a row with the same model, messages and tools"
    add_number(option, "repeats", count, None, text)
    text = "the limit of an answer for which the client gives none; else only limits of tokens "
    text += "and dollars bound answers, by what they can afford"
    add_number(option, "max-tokens", count, None, text)


def add_ledger_key(option: Callable[..., Any]) -> None:
    """Add the option that `ledger_options` reads."""
    text = "the key of an http:// ledger, as @FILE or env:VARIABLE"
    option("--ledger-key", metavar="…", help=text)


def ledger_options(options: argparse.Namespace, url: str) -> dict[str, Any]:
    """Return what a ledger is opened with beside its URL: its key, if there is one."""
    from budget_cpython.files.settings_file import read_secret

    if options.ledger_key is None:
        return {}
    if not url.startswith("http"):
        raise ValueError("--ledger-key is for an http:// or https:// ledger only")
    return {"key": read_secret("--ledger-key", options.ledger_key)}


def add_listening(option: Callable[..., Any], listen: str) -> None:
    """Add the options of where to listen and whom to answer."""
    address = f"HOST:PORT, with port 0 for a free one, or unix:PATH ({listen})"
    option("--listen", default=listen, metavar="ADDRESS", help=address)
    option("--keys", metavar="FILE", help=KEYS_HELP)


def add_metrics(option: Callable[..., Any]) -> None:
    """Add the options of `/metrics`, which `metrics_of` reads."""
    text = "serve /metrics for Prometheus: with --keys, to keys with the right to read"
    option("--metrics", action="store_true", help=text)
    text = "show at most N accounts there, those nearest to their end"
    add_number(option, "metrics-accounts", count, 1000, text)


def add_telemetry(option: Callable[..., Any]) -> None:
    """Add the option that `begin_telemetry` reads."""
    text = "export OpenTelemetry's metrics, by the SDK that opentelemetry-instrument sets up"
    option("--telemetry", action="store_true", help=text)


def begin_telemetry(options: argparse.Namespace) -> None:
    """Turn telemetry on if the options say so; raises `ImportError`."""
    if options.telemetry:
        from budget_cpython.telemetry.switch import enable_telemetry

        enable_telemetry()


def metrics_of(options: argparse.Namespace) -> int | None:
    """Return how many accounts `/metrics` shows; `None` if it is not served."""
    return int(options.metrics_accounts) if options.metrics else None


def add_workers(option: Callable[..., Any]) -> None:
    """Add the option of how many processes serve."""
    text = "serve with N processes, on a ledger that they can share"
    add_number(option, "workers", count, 1, text)


def begin_worker() -> None:
    """Begin as one of several processes: log as the first one does, and end with it."""
    import multiprocessing
    import threading

    from budget_cpython.serve.server import log_requests

    log_requests()
    first = multiprocessing.parent_process()
    if first is not None:
        threading.Thread(target=_end_with, args=(first,), daemon=True).start()


def _end_with(first: Any) -> None:
    import signal

    first.join()
    signal.raise_signal(signal.SIGTERM)


@contextmanager
def counting_together() -> Iterator[None]:
    """Have the processes that are started meanwhile count what `/metrics` shows in one folder."""
    from tempfile import TemporaryDirectory

    from budget_cpython.telemetry.prometheus import SHARED

    with TemporaryDirectory(prefix="microbudget-metrics-") as folder:
        os.environ.setdefault(SHARED, folder)
        try:
            yield
        finally:
            if os.environ[SHARED] == folder:
                del os.environ[SHARED]


def add_connections(option: Callable[..., Any], grace: float) -> None:
    """Add the options of connections: how many, for how long, and with which certificate."""
    text = "the most connections; a new one takes the place of a stalled one"
    add_number(option, "connections", count, 1000, text)
    # More than may wait for holds at once, so that those who settle holds get through.
    text = "the most of one client's address; more behind a proxy"
    add_number(option, "connections-per-address", count, 600, text)
    text = "close a connection without progress for S seconds"
    add_number(option, "idle-timeout", seconds, 30, text)
    text = "when stopped, answer requests for up to S seconds"
    add_number(option, "grace", seconds, grace, text)
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


def prepare_service(options: argparse.Namespace) -> "Callable[..., int]":
    """Return what serves an app, with `workers=N` processes, where the options say.

    Raises `ValueError` for an address that others reach, where there are no keys.
    """
    from budget_cpython.serve.addresses import ListenAddress
    from budget_cpython.serve.connections import ConnectionLimits, allow_connections
    from budget_cpython.serve.server import run_service

    address = ListenAddress.parse(options.listen)
    if options.ssl_keyfile and not options.ssl_certfile:
        raise ValueError("--ssl-keyfile needs --ssl-certfile")
    certificate = options.ssl_certfile and (options.ssl_certfile, options.ssl_keyfile)
    _check_keys(open_keys(options), address, bool(certificate))
    allowed = allow_connections(options.connections)
    if allowed < options.connections:
        warn(f"the system allows {allowed} connections: raise its limit of files, as by ulimit -n")
    limits = ConnectionLimits(allowed, options.connections_per_address, options.idle_timeout)
    more = {"grace": options.grace, "access_log": options.access_log, "certificate": certificate}

    def serve(app: Any, workers: int = 1) -> int:
        try:
            return run_service(app, address, limits, workers=workers, **more)
        except OSError as error:
            files = f"with {' and '.join(filter(None, certificate))}: " if certificate else ""
            text = f"cannot serve on {address}: {files}{error.strerror or error}"
            raise OSError(text) from error

    return serve


def _check_keys(keys: "KeyFile | None", address: "ListenAddress", encrypted: bool) -> None:
    if keys is None and not address.is_local:
        text = f"other machines can reach {address}: give --keys FILE, or listen on 127.0.0.1"
        raise ValueError(text)
    if keys is not None:
        if not keys.keys():
            warn(f"{keys.path!r} has no key: every request is refused")
        if not address.is_local and not encrypted:
            warn("keys travel unencrypted: use a reverse proxy with TLS, or give --ssl-certfile")

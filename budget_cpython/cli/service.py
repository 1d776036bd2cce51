"""Shared by the commands `run`, `serve` and `proxy`: ledgers, keys, where to listen, workers."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from budget_cpython.cli.options import KEYS_VARIABLE
from budget_cpython.ledger.default_ledger import ENGINE_VARIABLE as ENGINE_VARIABLE

if TYPE_CHECKING:
    from budget_cpython.web.addresses import ListenAddress
    from budget_cpython.web.keys import KeyFile

# options of the table: how calls within a budget go, and the connections of a service
CALL_RULES = "--notices --strict --fallback-model --wait --repeats --max-tokens"
CONNECTIONS = (
    "--connections --connections-per-address --idle-timeout --grace --ssl-certfile --ssl-keyfile "
    "--access-log"
)


def ledger_options(options: argparse.Namespace, url: str) -> dict[str, Any]:
    """Return the options of a ledger beside its URL: its key, if there is one."""
    if options.ledger_key is None:
        return {}
    from budget_cpython.files.settings_file import read_secret

    if not url.startswith("http"):
        raise ValueError("--ledger-key is for an http:// or https:// ledger only")
    return {"key": read_secret("--ledger-key", options.ledger_key)}


def begin_telemetry(options: argparse.Namespace) -> None:
    """Turn telemetry on if the options say so; raises `ImportError`."""
    if options.telemetry:
        from budget_cpython.telemetry.switch import enable_telemetry

        enable_telemetry()


def metrics_of(options: argparse.Namespace) -> int | None:
    """Return how many accounts `/metrics` shows; `None` if it is not served."""
    return int(options.metrics_accounts) if options.metrics else None


def begin_worker() -> None:
    """Begin as one of several processes: log as the first one does, and end with it."""
    import multiprocessing
    import threading

    from budget_cpython.web.server import log_requests

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


def warn(text: str) -> None:
    """Print a warning."""
    print(f"warning: {text}", file=sys.stderr, flush=True)


def open_keys(options: argparse.Namespace) -> "KeyFile | None":
    """Return the file of keys, or `None` if there is none."""
    from budget_cpython.web.keys import KeyFile

    path = options.keys or os.environ.get(KEYS_VARIABLE)
    return KeyFile(path) if path else None


def prepare_service(options: argparse.Namespace) -> "Callable[..., int]":
    """Return the function that serves an app at the options' address, in `workers=N` processes.

    Raises `ValueError` for an address that others reach, where there are no keys.
    """
    from budget_cpython.web.addresses import ListenAddress
    from budget_cpython.web.connections import ConnectionLimits, allow_connections
    from budget_cpython.web.server import run_service

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

"""Do what `microbudget serve` was told, a function a command; each returns the exit code."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.cli import drop_output
from budget_cpython.cli.serve import ENGINE_VARIABLE, KEYS_VARIABLE
from budget_cpython.serve.keys import KeyFile, KeyFileError

CLOSING_S = 5
USAGE = 2


class ServeError(Exception):
    """What a command cannot do, with the exit code that says whose fault that is."""

    def __init__(self, text: str, exit_code: int = 1) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def run(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command, and say on one line what went wrong with it."""
    try:
        return command(options)
    except ServeError as error:
        code, text = error.exit_code, str(error)
    except ValueError as error:
        code, text = USAGE, str(error)
    except (KeyFileError, ImportError) as error:
        code, text = 1, str(error)
    print(f"error: {text}", file=sys.stderr)
    return code


def serve(options: argparse.Namespace) -> int:
    """Serve a ledger until told to stop."""
    from budget_cpython.serve import make_app  # names the extra where it is missing
    from budget_cpython.serve.server import ListenError, Place, run_service, warn

    place = Place.parse(options.listen)
    keys = _keys(options)
    tls = (options.ssl_certfile, options.ssl_keyfile) if options.ssl_certfile else None
    if keys is None and not place.is_local:
        text = f"{place} can be reached from elsewhere: give --keys FILE, or listen on 127.0.0.1"
        raise ServeError(text, USAGE)
    if keys is not None:
        if not keys.keys():
            warn(f"{keys.path!r} has no key: everybody is refused")
        if not place.is_local and tls is None:
            warn("keys travel unencrypted: put a proxy with TLS before it, or give --ssl-certfile")
    ledger = _open(options)
    app = make_app(
        ledger,
        keys,
        expire_every=options.expire_every,
        engine_timeout=options.engine_timeout,
    )
    try:
        try:
            listener = place.open()
        except ListenError as error:
            raise ServeError(str(error)) from error
        return run_service(
            app,
            listener,
            place,
            grace=options.grace,
            access_log=options.access_log,
            tls=tls,
            say=lambda url: print(url, flush=True),
        )
    except OSError as error:  # a certificate that cannot be read
        raise ServeError(f"cannot serve on {place}: {error}") from error
    finally:
        _close(ledger)


def add_key(options: argparse.Namespace) -> int:
    """Make a key, and print it."""
    token = _needed_keys(options).add(options.name, options.account, options.rights)
    print(token)
    return 0


def list_key(options: argparse.Namespace) -> int:
    """Show all keys, but not what they are."""
    keys = _needed_keys(options).keys()
    width = max(map(len, keys), default=0)
    for key in keys.values():
        made = time.strftime("%Y-%m-%d", time.gmtime(key.made_at))
        print(f"{key.name:{width}}  {made}  {','.join(key.rights)}  {key.account}")
    if not keys:
        print("no keys", file=sys.stderr)
    return 0


def revoke_key(options: argparse.Namespace) -> int:
    """Let a key in no more."""
    _needed_keys(options).revoke(options.name)
    return 0


def _keys(options: argparse.Namespace) -> KeyFile | None:
    path = options.keys or os.environ.get(KEYS_VARIABLE)
    return KeyFile(path) if path else None


def _needed_keys(options: argparse.Namespace) -> KeyFile:
    keys = _keys(options)
    if keys is None:
        raise ServeError(f"give the file of keys with --keys, or in ${KEYS_VARIABLE}", USAGE)
    return keys


def _open(options: argparse.Namespace) -> Any:
    from budget_cpython.ledger.opening import open_ledger

    url = options.engine or os.environ.get(ENGINE_VARIABLE)
    if not url:
        text = f"give the ledger's engine with --engine, or in ${ENGINE_VARIABLE}; try sqlite:FILE"
        raise ServeError(text, USAGE)
    try:
        return open_ledger(url)
    except BudgetError as error:
        raise ServeError(f"cannot open the ledger: {error}") from error


def _close(ledger: Any) -> None:
    """Close the engine; one that hangs is left, for nobody could stop the service any more."""
    close = getattr(ledger, "close", None)
    if close is not None:
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(CLOSING_S)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()

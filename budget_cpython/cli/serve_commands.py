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
    tls = _tls(options)
    if keys is None and not place.is_local:
        text = f"{place} can be reached from elsewhere: give --keys FILE, or listen on 127.0.0.1"
        raise ServeError(text, USAGE)
    if keys is not None:
        if not keys.keys():
            warn(f"{keys.path!r} has no key: everybody is refused")
        if not place.is_local and tls is None:
            warn("keys travel unencrypted: put a proxy with TLS before it, or give --ssl-certfile")
    ledger = _open(options)
    try:
        _ask_once(options, ledger, warn)
        app = make_app(
            ledger,
            keys,
            expire_every=options.expire_every,
            engine_timeout=options.engine_timeout,
        )
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
    except OSError as error:  # a certificate that is none
        text = f"with the certificate {tls[0]!r}: " if tls else ""
        raise ServeError(f"cannot serve on {place}: {text}{error}") from error
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


def _tls(options: argparse.Namespace) -> tuple[str, str | None] | None:
    certificate, key = options.ssl_certfile, options.ssl_keyfile
    if not certificate:
        if key:
            raise ServeError("--ssl-keyfile goes with --ssl-certfile", USAGE)
        return None
    for path in (certificate, key):
        if path:
            try:
                open(path, "rb").close()
            except OSError as error:
                raise ServeError(f"cannot read {path!r}: {error.strerror}") from error
    return certificate, key


def _engine(options: argparse.Namespace) -> str:
    url: str = options.engine or os.environ.get(ENGINE_VARIABLE) or ""
    if not url:
        text = f"give the ledger's engine with --engine, or in ${ENGINE_VARIABLE}; try sqlite:FILE"
        raise ServeError(text, USAGE)
    return url


def _open(options: argparse.Namespace) -> Any:
    from budget_cpython.ledger.opening import open_ledger

    url = _engine(options)
    more: dict[str, Any] = {"axes": options.axes, "max_holds": options.max_holds}
    more = {name: value for name, value in more.items() if value is not None}
    if "max_holds" in more and url != "memory:":
        raise ServeError("--max-holds is for memory: alone", USAGE)
    if "axes" in more and url.startswith("http"):
        raise ServeError("--axes is for an engine, not for a service of another", USAGE)
    try:
        return open_ledger(url, **more)
    except BudgetError as error:
        raise ServeError(f"cannot open the ledger: {error}") from error


def _ask_once(options: argparse.Namespace, ledger: Any, warn: Callable[[str], None]) -> None:
    """Say it now where the engine cannot work, while somebody looks.

    A file that cannot be used will not be later; a server may come back.
    """
    try:
        ledger.limits("readyz")
    except BudgetError as error:
        if _engine(options).startswith("sqlite:"):
            raise ServeError(f"cannot use the ledger: {error}") from error
        warn(f"the ledger cannot be used yet: {error}")


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

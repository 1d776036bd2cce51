"""The command `microbudget page`."""

import argparse
import getpass
import secrets
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import check_ledger, ledger_url, opened_ledger

_ENGINE_S = 10.0  # to answer
_GRACE_S = 2.0
_CONNECTIONS = 100
_IDLE_S = 30.0


@command(f"{LEDGER} --listen --open", "serve")
def page(options: argparse.Namespace) -> int:
    """Show a ledger in a browser on this machine.

    It shows accounts with their limits, what will be empty when, spend by model, account and tool,
    holds, and refusals. Limits are changed there as well.

    The first line printed is the URL. It has a random token in it, without which nothing is shown.
    Only this machine is answered. SIGTERM or Ctrl-C stops it. `serve` and `proxy` show the same
    page at / to keys with the right to read.

    examples:
      microbudget page --open
      microbudget page --ledger redis://localhost
      microbudget page --ledger https://budgets.example --ledger-key @reader.key

    exit codes:
      0  it was stopped
    """
    from budget_cpython.web.addresses import ListenAddress
    from budget_cpython.web.connections import ConnectionLimits
    from budget_cpython.web.server import run_service

    address = ListenAddress.parse(options.listen)
    if not address.is_local or address.path:
        raise ValueError(f"{address} is not 127.0.0.1:PORT or another loopback address")
    token = secrets.token_urlsafe(24)
    limits = ConnectionLimits(_CONNECTIONS, _CONNECTIONS, _IDLE_S)
    with opened_ledger(options) as ledger, _opener(options.open) as show:
        check_ledger(ledger.balances, ledger_url(options))
        app = make_secret_page(ledger, token)
        return run_service(
            app, address, limits, grace=_GRACE_S, announce=lambda url: show(f"{url}/{token}/")
        )


def make_secret_page(ledger: Any, token: str) -> Any:
    """Return an ASGI app that shows a ledger to those who know the token in its URL."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from budget_cpython.page.app import make_page
    from budget_cpython.page.doors import OpenDoor
    from budget_cpython.page.watch import LedgerWatch
    from budget_cpython.web.addresses import check_host
    from budget_cpython.web.served_ledger import ServedLedger

    door = OpenDoor(name=f"user {getpass.getuser()}", check=check_host)
    page = make_page(LedgerWatch(ServedLedger(ledger, _ENGINE_S)), door)
    app = Starlette(routes=[Mount(f"/{token}", page)])
    app.router.redirect_slashes = False
    return app


@contextmanager
def _opener(opens: bool) -> "Iterator[Any]":
    """Yield what prints a URL, and opens it by a file that others cannot read.

    The list of processes shows the URL that a browser is started with.
    """
    if not opens:
        yield partial(print, flush=True)
        return
    with tempfile.TemporaryDirectory(prefix="microbudget-") as folder:

        def show(url: str) -> None:
            print(url, flush=True)
            file = Path(folder, "page.html")
            to = escape(url, quote=True)
            text = f'<meta http-equiv="refresh" content="0; url={to}"><a href="{to}">Open</a>'
            file.write_text(text, encoding="utf-8")
            webbrowser.open(file.as_uri())

        yield show

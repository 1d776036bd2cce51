"""The command `microbudget serve`."""

import argparse
import asyncio
import os
import secrets
import threading
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from budget_core.errors import BudgetError
from budget_cpython.cli.alerts import read_channels, watching_for
from budget_cpython.cli.command import command
from budget_cpython.cli.serve_key import key
from budget_cpython.cli.service import (
    CONNECTIONS,
    ENGINE_VARIABLE,
    begin_worker,
    counting_together,
    metrics_of,
    open_keys,
    prepare_service,
    warn,
)

if TYPE_CHECKING:
    from budget_core.ledger._types import LedgerProtocol

_OPTIONS = (
    "--engine --no-create --listen --keys --axes --max-holds --engine-timeout --workers --alerts "
    f"--metrics --metrics-accounts {CONNECTIONS}"
)
CLOSING_S = 5


def _add_key(parser: argparse.ArgumentParser) -> None:
    key.add_to(parser.add_subparsers(metavar="COMMAND", prog=parser.prog))


@command(
    _OPTIONS,
    "serve",
    extend=_add_key,
    usage="%(prog)s [options]\n       %(prog)s key COMMAND ...",
)
def serve(options: argparse.Namespace) -> int:
    r"""Serve a ledger over HTTP to devices and other languages.

    All of them share its budgets. The first line printed is the URL. SIGTERM or Ctrl-C stops it: it
    answers the requests that it has received, then closes the engine. /openapi.json describes the
    API, /healthz tells that the service runs, /readyz that the engine answers. Without --keys every
    request may do everything, so it listens on this machine only. For TLS use a reverse proxy or
    --ssl-certfile.

    examples:
      microbudget serve --engine sqlite:ledger.db
      microbudget serve key add pico --account org/lab --rights reserve,charge,read --keys k.json
      microbudget serve --engine redis://localhost --listen 0.0.0.0:8321 --keys k.json
      curl -X PUT localhost:8321/v1/limits/org -H 'Content-Type: application/json' \
          -d '{"limits": [{"axis": "tokens", "cap": 100000, "window": "day"}]}'

    exit codes:
      0  it was stopped
    """
    options.page_secret = secrets.token_bytes(32)  # of all workers
    options.engine = _engine_of(options)
    serve = prepare_service(options)
    channels = read_channels(options.alerts)
    ledger = _open_ledger(options)
    try:
        _check(ledger, options.engine)
        app = _served(options, ledger)  # refuses what is malformed, also where workers have theirs
        with watching_for(channels, lambda: ledger):
            if options.workers == 1:
                code = serve(app)
            else:
                with counting_together() if options.metrics else nullcontext():
                    code = serve(partial(make_worker, options), options.workers)
    finally:
        _close(ledger)
    os._exit(code)  # waits for no thread: one may hang in the engine


def make_worker(options: argparse.Namespace) -> Any:
    """Return the app of one of several processes, which ends as soon as the app does."""
    begin_worker()
    ledger = None if _is_awaited(options) else _open_ledger(options)
    app = _served(options, ledger)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        if scope["type"] == "lifespan":  # all requests are answered
            if ledger is not None:
                _close(ledger)
            os._exit(0)

    return run


def _served(options: argparse.Namespace, ledger: "LedgerProtocol | None") -> Any:
    """Return the app of a ledger that blocks, or of the same engine's for asyncio.

    The latter is closed once all requests are answered: that takes the event loop.
    """
    if not _is_awaited(options):
        return _make_app(options, ledger)
    awaited = _open_ledger(options, awaited=True)
    app = _make_app(options, awaited)

    async def run(scope: Any, receive: Any, send: Any) -> None:
        async def close_first(message: Any) -> None:
            if message["type"] == "lifespan.shutdown.complete":
                with suppress(BudgetError, TimeoutError):  # its engine may hang
                    async with asyncio.timeout(CLOSING_S):
                        await awaited.close()
            await send(message)

        await app(scope, receive, close_first if scope["type"] == "lifespan" else send)

    return run


def _is_awaited(options: argparse.Namespace) -> bool:
    """Tell whether the engine is served by its ledger for asyncio.

    That for http:// opens a connection for each of its requests, the one for threads keeps some.
    """
    return not options.engine.startswith(("memory:", "sqlite:", "http:", "https:"))


def _make_app(options: argparse.Namespace, ledger: Any) -> Any:
    from budget_cpython.serve.app import make_app
    from budget_cpython.web.keys import KeyFileError

    keys = open_keys(options)
    if keys is not None:
        with suppress(KeyFileError):  # which requests are answered with
            keys.keys()  # so that changes from now on are noted
    return make_app(
        ledger,
        keys,
        engine_timeout=options.engine_timeout,
        metrics=metrics_of(options),
        page_secret=options.page_secret,
    )


def _close(ledger: "LedgerProtocol") -> None:
    """Close a ledger, unless that takes too long: its engine may hang."""
    closing = threading.Thread(target=ledger.close, daemon=True)
    closing.start()
    closing.join(CLOSING_S)


def _engine_of(options: argparse.Namespace) -> str:
    """Return the engine's URL; `ValueError` if the workers cannot share it."""
    url: str = options.engine or os.environ.get(ENGINE_VARIABLE, "")
    if not url:
        text = f"give the ledger's engine with --engine, or set ${ENGINE_VARIABLE}; try sqlite:FILE"
        raise ValueError(text)
    if options.workers > 1 and url == "memory:":
        raise ValueError(
            "--workers needs a ledger that processes can share, and memory: is one process's own: "
            "give --engine redis://… or postgresql://…, or serve with one process"
        )
    return url


def _open_ledger(options: argparse.Namespace, awaited: bool = False) -> Any:
    """Open the ledger; `ValueError` for an option that is not for its engine."""
    from budget_cpython.ledger.opening import open_async_ledger, open_ledger
    from budget_cpython.web.devices import AXES

    url = options.engine
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
    return (open_async_ledger if awaited else open_ledger)(url, **more)


def _check(ledger: "LedgerProtocol", url: str) -> None:
    """Ask the ledger once: a file that cannot be used is an error at once."""
    try:
        ledger.limits("readyz")
    except BudgetError as error:
        if url.startswith("sqlite:"):
            raise
        warn(f"the ledger cannot be used yet: {error}")

"""Shared by the commands for operators: the ledger, JSON and the confirmation."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.cli.service import ledger_options, warn
from budget_cpython.ledger.default_ledger import default_url, usable_default
from budget_cpython.ledger.opening import open_ledger, several_databases, sqlite_path

if TYPE_CHECKING:
    from budget_cpython.ledger.journal import JournaledLedger


def ledger_url(options: argparse.Namespace) -> str:
    """Return the URL of the ledger; `ValueError` for one in memory, which nobody else sees."""
    url: str = options.ledger or default_url()
    if url == "memory:":
        raise ValueError("memory: is a ledger of each process's own: name one that others use")
    return url


@contextmanager
def opened_ledger(options: argparse.Namespace, create: bool = False) -> "Iterator[JournaledLedger]":
    """Yield the ledger of the options; a file that is missing is made only with `create`.

    Raises `ValueError`, and `LedgerUnavailableError` where there is no ledger yet.
    """
    url = ledger_url(options)
    more = ledger_options(options, url)
    if url.startswith("sqlite:") and not create:
        path = sqlite_path(url.partition(":")[2])
        if not os.path.lexists(path):
            raise LedgerUnavailableError(
                f"there is no ledger {path!r} yet: a program with a budget makes it, or "
                "`microbudget limits set`; another is named with --ledger"
            )
        more["create"] = False
    with usable_default(url) if create and not options.ledger else nullcontext():
        ledger: Any = open_ledger(url, **more)
        with closing(ledger):
            yield ledger


def check_ledger(ask: Callable[[], Any], url: str) -> None:
    """Ask a ledger once: a file that cannot be used is an error at once, a server a warning."""
    try:
        ask()
    except LedgerUnavailableError as error:
        if url.startswith("sqlite:"):
            raise
        warn(f"the ledger cannot be used yet: {error}")


def shown_place(url: str) -> str:
    """Return where a ledger is, as it may be shown: a URL may have a password."""
    if url.startswith("sqlite:"):
        return url.partition(":")[2]
    several = several_databases(url)
    if several:
        return " ".join(map(shown_place, several))
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value))


def agrees(yes: bool) -> bool:
    """Return whether the user agrees to what was printed, by `--yes` or by an answer.

    Raises `ValueError` where nobody can be asked.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ValueError("nothing was changed: give --yes where nobody can be asked")
    print("Do it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed", file=sys.stderr)
    return False

"""What the commands for operators share: their options, the ledger, JSON and the question."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.cli.service_options import (
    ENGINE_VARIABLE,
    add_ledger_key,
    ledger_options,
    run_command,
    warn,
)
from budget_cpython.ledger.default_ledger import default_url, usable_default
from budget_cpython.ledger.opening import open_ledger, several_databases, sqlite_path

if TYPE_CHECKING:
    from budget_cpython.ledger.journal import JournaledLedger

_CODES = {0: "it worked", 1: "it failed, as the error says", 2: "a malformed option or argument"}


def add_command(
    commands: Any,
    name: str,
    command: Callable[[argparse.Namespace], int],
    summary: str,
    examples: Sequence[str],
    about: str = "",
    codes: dict[int, str] | None = None,
) -> argparse.ArgumentParser:
    """Add the command `name`, with the options of a ledger and `--json`.

    `codes` are exit codes of its own, beside 0, 1 and 2.
    """
    text = f"{summary[0].upper()}{summary[1:]}."
    said = [f"  {code}  {words}" for code, words in sorted({**_CODES, **(codes or {})}.items())]
    epilog = ["examples:", *(f"  {one}" for one in examples), "", "exit codes:", *said]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description="\n".join(filter(None, (text, about))),
        epilog="\n".join(epilog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_ledger(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.set_defaults(run=partial(run_command, command, "ops"))
    return parser


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the options of a ledger, as `opened_ledger` takes them."""
    text = f"sqlite:FILE, redis://…, postgresql://…, http://…; by default ${ENGINE_VARIABLE}, "
    text += "else the file of the default ledger"
    parser.add_argument("--ledger", metavar="URL", help=text)
    add_ledger_key(parser.add_argument)


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add an account as an argument, by default all of them."""
    text = "an account, and all below it (all accounts)"
    parser.add_argument("path", nargs="?", default="", metavar="PATH", help=text)


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
    more = ledger_options(options, url) if options.ledger_key is not None else {}
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


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add `--yes`, which answers the question of `agrees`."""
    parser.add_argument("--yes", action="store_true", help="do not ask")


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

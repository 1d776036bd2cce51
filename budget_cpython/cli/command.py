"""Shared by all commands: how their parsers are made, and how an error ends one."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from inspect import cleandoc
from typing import Any, NamedTuple

from budget_core.errors import BudgetError
from budget_cpython.cli.options import add_options

USAGE = 2
LEDGER = "--ledger --ledger-key"  # the options of a ledger, as `opened_ledger` takes them
_CODES = "exit codes:\n"
_ALL_CODES = {
    "0": "it worked",
    "1": "it failed, as the error says",
    "2": "a malformed option or argument",
}
Run = Callable[[argparse.Namespace], int]


class CliCommand(NamedTuple):
    """A command: a function whose docstring is its help, with the names of its options.

    `extra` is what to install for a package that is missing, `about` more of what it does. Its
    exit codes are the docstring's, and unless that `has_all_codes` 0, 1 and 2. `extend` adds to its
    parser what the table of options cannot say, and `more` is for that parser.
    """

    run: Run
    options: str
    extra: str | None
    about: str
    extend: Callable[[argparse.ArgumentParser], None]
    has_all_codes: bool
    more: dict[str, Any]

    def add_to(self, commands: Any) -> None:
        """Add its parser: the docstring is shown before the options, its lists after them."""
        name = self.run.__name__.strip("_")
        text, lists = _split(cleandoc(self.run.__doc__ or f"{name}."))
        lists = lists if self.has_all_codes else _with_codes(lists)
        parser = _add_parser(commands, name, text, self.about, lists, self.more)
        add_options(parser, parser.prog.removeprefix("microbudget "), self.options)
        self.extend(parser)
        run = self.run if self.extra is None else partial(run_command, self.run, self.extra)
        parser.set_defaults(run=run)


def command(
    options: str,
    extra: str | None = "ops",
    about: str = "",
    extend: Callable[[argparse.ArgumentParser], None] = lambda parser: None,
    has_all_codes: bool = False,
    **more: Any,
) -> Callable[[Run], CliCommand]:
    """Return a decorator that makes a `CliCommand` of a function, by whose name it is called."""
    return lambda run: CliCommand(run, options, extra, about, extend, has_all_codes, more)


class Group(NamedTuple):
    """A command that has commands of its own."""

    name: str
    summary: str
    members: Sequence["CliCommand | Group"]
    about: str = ""
    more: Any = {}

    def add_to(self, commands: Any) -> None:
        """Add its parser and theirs."""
        told = f"microbudget {self.name} COMMAND --help has the options and examples of each."
        parser = _add_parser(commands, self.name, self.summary, self.about, told, self.more)
        below = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog)
        for member in self.members:
            member.add_to(below)


def _add_parser(
    commands: Any, name: str, text: str, about: str, epilog: str, more: dict[str, Any]
) -> argparse.ArgumentParser:
    summary = text.partition("\n")[0]
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=f"{summary[0].lower()}{summary[1:-1]}",
        description="\n\n".join(filter(None, (text, about))),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **{"epilog": epilog, **more},
    )
    return parser


def _split(text: str) -> tuple[str, str]:
    """Return a docstring up to its first list, and its lists."""
    before, *lists = re.split(r"\n\n(?=[^\n]*:\n  )", text, maxsplit=1)
    return before, "".join(lists)


def _with_codes(lists: str) -> str:
    """Return lists that end with the exit codes of all commands, and those that are said."""
    others, _, said = lists.partition(_CODES)
    own = dict(re.findall(r"^  (\d+)  (.+)$", said, re.MULTILINE))
    codes = sorted({**_ALL_CODES, **own}.items(), key=lambda code: int(code[0]))
    return f"{others.rstrip()}\n\n{_CODES}" + "\n".join(f"  {one}  {text}" for one, text in codes)


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

"""The commands `microbudget limits show`, `set`, `remove`, `import` and `export`."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from budget_core.ledger.checks import check_path
from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_cpython.cli.command import LEDGER, Group, command
from budget_cpython.cli.ops.command import agrees, opened_ledger, print_json
from budget_cpython.cli.ops.screen import FAINT, GREEN, HEAD, RED, Line, Screen, cell, lay_out
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.selection import is_below
from budget_cpython.ops.limit_diff import (
    LimitChange,
    limit_changes,
    limit_rows,
)
from budget_cpython.ops.limit_file import limit_file, read_limit_file
from budget_cpython.ops.words import limits_text
from budget_cpython.wall_clock import WALL

_CLOCKS_DIFFER_S = 60  # at most, where all are right
_STYLES = {"-": RED, "+": GREEN, " ": FAINT}


@command(f"PATH {LEDGER} --json")
def _show(options: argparse.Namespace) -> int:
    """Show the limits of accounts.

    examples:
      microbudget limits show
      microbudget limits show acme --json
    """
    found = _limits(options)
    if options.json:
        print_json({path: limit_rows(limits) for path, limits in found.items()})
        return 0
    rows = [[cell(path, HEAD), cell(_in_words(limits))] for path, limits in found.items()]
    lines = lay_out(["ACCOUNT", "LIMITS"], rows, "<<", None)
    Screen().show(lines if rows else [cell(_no_limits(options.path))])
    return 0


def _no_limits(path: str) -> str:
    return f"no account at or below {path!r} has limits" if path else "no account has limits"


def _in_words(limits: Sequence[Limit]) -> str:
    return limits_text([(one.axis, one.cap, one.window) for one in limits])


@command(f"PATH {LEDGER} --json --output")
def _export(options: argparse.Namespace) -> int:
    """Print the limits of accounts as TOML.

    examples:
      microbudget limits export > limits.toml
      microbudget limits export acme -o acme.toml
    """
    found = _limits(options)
    if options.path and not found:
        raise ValueError(_no_limits(options.path))
    if options.json:
        print_json({path: limit_rows(limits) for path, limits in found.items()})
    elif options.output:
        Path(options.output).write_text(limit_file(found), "utf-8")
    else:
        print(limit_file(found), end="")
    return 0


@command(f"PATH LIMITS {LEDGER} --json --dry-run --yes")
def _set(options: argparse.Namespace) -> int:
    """Replace the limits of an account.

    What changes is shown first. Nothing is changed before you agree, or at once with --yes. What
    was spent stays counted; each change is noted in the ledger, with your name. A window that a
    wrong clock began in the future goes back to now, with what was spent. LIMITS is as in all
    settings: dollars, or a whole number of calls, tokens, tool_calls or tool:NAME; after a / comes
    the window, such as hour, day, week, month or 10min; a + joins several.

    examples:
      microbudget limits set acme/research '$5/day + 100 calls/hour'
      microbudget limits set acme '$400/month' --dry-run
    """
    wanted = {check_path(options.path): parse_limits(options.limits)}
    return _change(options, wanted)


@command(f"PATH {LEDGER} --json --dry-run --yes")
def _remove(options: argparse.Namespace) -> int:
    """Remove accounts with their limits.

    What changes is shown first. Nothing is changed before you agree, or at once with --yes. What
    was spent stays counted; each change is noted in the ledger, with your name. A window that a
    wrong clock began in the future goes back to now, with what was spent.

    examples:
      microbudget limits remove acme/trial
      microbudget limits remove acme/a acme/b --yes
    """
    with opened_ledger(options) as ledger:
        for path in options.path:
            if not ledger.limits(path):
                raise ValueError(f"account {path!r} has no limits")
    return _change(options, {path: [] for path in options.path})


@command(f"FILE --prune {LEDGER} --json --dry-run --yes")
def _import(options: argparse.Namespace) -> int:
    """Set the limits of all accounts in a TOML file.

    What changes is shown first. Nothing is changed before you agree, or at once with --yes. What
    was spent stays counted; each change is noted in the ledger, with your name. A window that a
    wrong clock began in the future goes back to now, with what was spent. Accounts that the file
    does not name stay as they are, or go with --prune.

    examples:
      microbudget limits import limits.toml --dry-run
      microbudget limits import limits.toml --prune --yes
    """
    wanted = read_limit_file(options.file)
    if not wanted:
        raise ValueError(f'{options.file!r} has no limits: they are in [accounts."PATH"]')
    return _change(options, wanted, options.prune)


def _limits(options: argparse.Namespace) -> dict[str, list[Limit]]:
    """Return the limits of the accounts at or below a path."""
    with opened_ledger(options) as ledger:
        rows = ledger.balances(options.path)  # in one request
        return _by_account(row for row in rows if is_below(row.account, options.path))


def _by_account(rows: Iterable[Balance]) -> dict[str, list[Limit]]:
    found: dict[str, list[Limit]] = {}
    for row in rows:
        found.setdefault(row.account, []).append(Limit(row.axis, row.limit, row.window))
    return found


def _change(
    options: argparse.Namespace, wanted: Mapping[str, list[Limit]], prune: bool = False
) -> int:
    """Show the changes, ask, and apply them."""
    with opened_ledger(options, create=not options.dry_run) as ledger:
        rows = ledger.balances()
        before = _by_account(rows)
        after = {**{path: [] for path in before if prune}, **wanted}
        changes = limit_changes(before, after)
        ahead = sorted(_ahead(rows) & after.keys())
        if not options.json:
            Screen().show([*_diff(changes), *map(_back, ahead)])
        applied = bool(changes or ahead) and not options.dry_run
        if applied:
            if not agrees(options.yes):
                return 1
            changed = {change.account: change.after for change in changes}
            for path in {**changed, **dict.fromkeys(ahead)}:
                ledger.set_limits(path, changed.get(path, after[path]))
    if options.json:
        said = [change.as_json() for change in changes]
        print_json({"changes": said, "applied": applied})
    elif applied:
        count = len({*ahead, *(change.account for change in changes)})
        print(f"{count} account{'s' * (count != 1)} changed")
    return 0


def _ahead(rows: Iterable[Balance]) -> set[str]:
    """Return the accounts with a window that a wrong clock began in the future."""
    soon = int(WALL()) + _CLOCKS_DIFFER_S
    return {row.account for row in rows if row.begins_at > soon}


def _back(path: str) -> Line:
    return cell(f"{path}: a wrong clock began its window in the future: it goes back")


def _diff(changes: Sequence[LimitChange]) -> list[Line]:
    """Return the lines that show changes."""
    lines: list[Line] = []
    for change in changes:
        note = "" if change.before else "  (new)"
        if not change.after:
            note = "  (removed)"
        lines.append([(change.account, HEAD), (note, FAINT)])
        lines += [cell(f"  {sign} {text}", _STYLES[sign]) for sign, text in change.rows()]
    return lines or [cell("nothing would change")]


limits = Group(
    "limits",
    "Show and change limits, and keep them in a file.",
    (_show, _set, _remove, _import, _export),
)

"""The commands `microbudget holds` and `microbudget holds release`."""

import argparse
from collections.abc import Mapping
from typing import Any

from budget_cpython.cli.command import LEDGER, Group, command
from budget_cpython.cli.ops.command import agrees, opened_ledger, print_json
from budget_cpython.cli.ops.screen import FAINT, HEAD, Line, Screen, cell, lay_out
from budget_cpython.ledger.journal import LedgerEvent, OpenHold
from budget_cpython.ledger.limit_changes import changed_by
from budget_cpython.ops.json_rows import hold_row
from budget_cpython.ops.words import amount_words, duration
from budget_cpython.wall_clock import WALL

_LIST, _RELEASE = "list", "release"


def with_list(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line, with the `list` that `holds` may leave out."""
    if arguments[:1] != ["holds"] or arguments[1:2] in ([_LIST], [_RELEASE], ["-h"], ["--help"]):
        return arguments
    return ["holds", _LIST, *arguments[1:]]


@command(f"PATH {LEDGER} --json --most")
def _list(options: argparse.Namespace) -> int:
    """List holds that are not settled, the oldest first.

    The word `list` may be left out.

    examples:
      microbudget holds
      microbudget holds acme/research --json
    """
    with opened_ledger(options) as ledger:
        holds = ledger.open_holds(options.path, options.most)
    now = int(WALL())
    if options.json:
        print_json({"at": now, "holds": [hold_row(hold) for hold in holds]})
        return 0
    screen = Screen()
    screen.show(_lines(holds, now, options.most, screen))
    return 0


def _lines(holds: list[OpenHold], now: int, most: int, screen: Screen) -> list[Line]:
    if not holds:
        return [cell("no hold is open")]
    first = ["ACCOUNT, AMOUNTS"] if screen.is_narrow else ["ACCOUNT", "AMOUNTS"]
    head = [*first, "AGE", "EXPIRES IN", "ID"]
    rows = [
        [
            *_account(hold, screen.is_narrow),
            cell(duration(max(0, now - hold.taken_at))),
            cell(_expiry(hold, now), FAINT),
            cell(hold.id),
        ]
        for hold in holds
    ]
    lines = lay_out(head, rows, "<" * len(first) + ">><", screen.width)
    if len(holds) == most:
        lines.append(cell("there may be more: give --most, or a PATH", FAINT))
    return lines


def _account(hold: OpenHold, narrow: bool) -> list[Line]:
    """Return the cells of a hold's account and amounts: one, where there is little room."""
    path, amounts = cell(hold.path, HEAD), cell(_in_words(hold.amounts))
    return [[*path, *cell("  "), *amounts]] if narrow else [path, amounts]


def _expiry(hold: OpenHold, now: int) -> str:
    """Return how long a hold lasts; an expired one is there until the ledger counts it as spent."""
    return duration(hold.expires_at - now) if hold.expires_at > now else "expired"


def _in_words(amounts: Mapping[str, int]) -> str:
    return " + ".join(amount_words(axis, amount) for axis, amount in sorted(amounts.items()))


@command(f"ID {LEDGER} --json --account --yes")
def _release(options: argparse.Namespace) -> int:
    """Release a hold whose call was never made.

    Its amounts are free for other calls at once. That is right for a call that was never made. What
    a provider bills for one that was made is then counted nowhere, unless its program settles it
    late.

    examples:
      microbudget holds release '#1a208d6b310-15e1f9d2dff3'
      microbudget holds release job-17/step-4 --account acme/research --yes
    """
    with opened_ledger(options) as ledger:
        path = options.account or _path_of(options.id, ledger)
        hold = ledger.hold(path, options.id)
        shown = _in_words(hold.amounts)
        if not options.json:
            print(f"{options.id} on {path} holds {shown}", flush=True)
        if not agrees(options.yes):
            return 1
        now = ledger.release(hold)
        if now.state != hold.RELEASED:
            raise ValueError(f"hold {options.id!r} is {now.state} by now: nothing was changed")
        details = {"hold": hold.id, "amounts": hold.amounts, "by": changed_by()}
        ledger.note([LedgerEvent("released", path, details)])
    if options.json:
        print_json({"account": path, "id": hold.id, "amounts": hold.amounts})
    else:
        print("released")
    return 0


def _path_of(id: str, ledger: Any) -> str:
    """Return the account of an open hold; `ValueError` if none has it, or several do."""
    paths = [hold.path for hold in ledger.open_holds("", 1_000_000) if hold.id == id]
    if not paths:
        raise ValueError(f"no open hold has the id {id!r}: see `microbudget holds`")
    if len(paths) > 1:
        raise ValueError(f"several holds have the id {id!r}: give --account, {' or '.join(paths)}")
    return str(paths[0])


holds = Group(
    "holds",
    "List the holds of calls in flight, or release one.",
    (_list, _release),
    more={"usage": "%(prog)s [PATH] [options]\n       %(prog)s release ID [options]"},
)

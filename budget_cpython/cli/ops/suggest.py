"""The command `microbudget suggest`."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_core.wall_clock import DAY
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import opened_ledger, print_json
from budget_cpython.cli.ops.screen import FAINT, HEAD, ORANGE, Line, Screen, cell, cut, lay_out
from budget_cpython.ops.limit_file import limit_file
from budget_cpython.ops.past_windows import past_windows
from budget_cpython.ops.suggestion import (
    LEAST_WINDOWS,
    LimitSuggestion,
    suggest_daily,
    suggest_limit,
)
from budget_cpython.ops.words import limit_text, short_amount
from budget_cpython.wall_clock import WALL

_DAYS = 30
_LONGEST_NARROW = 17


@command(f"PATH {LEDGER} --json --headroom --toml")
def suggest(options: argparse.Namespace) -> int:
    """Suggest limits from what was spent, and say what they would have refused.

    A limit is suggested where 5 windows or more are known: what 95 percent of them stayed within,
    and some headroom. WOULD REFUSE is in how many of those windows more was spent. Usage says what
    accounts spent by the day, also where no limit counts it: such limits are new. --toml prints the
    accounts' limits, with the suggested ones, for `microbudget limits import`.

    examples:
      microbudget suggest
      microbudget suggest acme/research --headroom 50
      microbudget suggest acme --toml > limits.toml
    """
    now = int(WALL())
    with opened_ledger(options) as ledger:
        rows = ledger.balances(options.path)
        found = list(_suggestions(ledger, options.path, rows, now, options.headroom))
    if options.json:
        print_json([one._asdict() for one in found])
    elif options.toml:
        print(limit_file(_limits(rows, found)), end="")
    else:
        screen = Screen()
        screen.show(_lines(found, screen))
    return 0


def _suggestions(
    ledger: Any, path: str, rows: Sequence[Balance], now: int, headroom: int
) -> Iterator[LimitSuggestion]:
    """Yield the suggestions for each account, those of its own limits first."""
    daily = suggest_daily(ledger.usage(path, now - _DAYS * DAY), now, headroom)
    counted: dict[str, list[Balance]] = {}
    for row in rows:
        counted.setdefault(row.account, []).append(row)
    for account, own in counted.items():
        for one in past_windows(own, ledger.history(account)):
            suggestion = suggest_limit(one, headroom)
            if suggestion is not None:
                yield suggestion
        known = {(row.axis, row.window) for row in own}
        yield from (new for new in daily.get(account, ()) if (new.axis, new.window) not in known)


def _limits(
    rows: Sequence[Balance], suggestions: Sequence[LimitSuggestion]
) -> dict[str, list[Limit]]:
    """Return the limits of accounts with a suggestion, with the suggested caps in them."""
    accounts = dict.fromkeys(one.account for one in suggestions)
    found: dict[str, dict[tuple[str, str], int | None]] = {account: {} for account in accounts}
    for row in rows:
        if row.account in found:
            found[row.account][row.axis, row.window] = row.limit
    for one in suggestions:
        found[one.account][one.axis, one.window] = one.suggested
    return {
        account: [Limit(axis, cap, window) for (axis, window), cap in limits.items()]
        for account, limits in found.items()
    }


def _lines(found: Sequence[LimitSuggestion], screen: Screen) -> list[Line]:
    if not found:
        text = f"too little is known: a limit needs {LEAST_WINDOWS} past windows with usage"
        return [cell(text)]
    narrow = screen.is_narrow
    head = ["ACCOUNT", "NOW", "SEEN", "MEDIAN", "HIGHEST", "SUGGESTED", "WOULD REFUSE"]
    sides = "<<>>><<"
    left_out = {"SEEN", "MEDIAN"} if narrow else set()
    rows = []
    last = ""
    for one in found:
        beyond = f"{one.refused} of {one.windows}, {short_amount(one.axis, one.beyond)} more"
        cells = [
            cell("" if one.account == last else one.account, HEAD),
            cell("new" if one.is_new else _shown(one, one.limit, narrow)),
            cell(f"{one.windows}", FAINT),
            cell(short_amount(one.axis, one.median)),
            cell(short_amount(one.axis, one.highest)),
            cell(_shown(one, one.suggested, narrow), HEAD),
            cell(beyond if one.refused else "nothing", ORANGE if one.refused else FAINT),
        ]
        rows.append(cells)
        last = one.account
    lines = lay_out(head, rows, sides, screen.width, left_out=left_out)
    hint = "--toml prints them as a file for `microbudget limits import`"
    return [*lines, [], cell(hint, FAINT)]


def _shown(one: LimitSuggestion, cap: int | None, narrow: bool) -> str:
    """Return a limit with a cap, without its middle where there is little room."""
    text = limit_text(one.axis, cap, one.window)
    return cut(text, _LONGEST_NARROW) if narrow else text

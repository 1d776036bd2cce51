"""The command `microbudget history`."""

import argparse
from statistics import median_low

from budget_core.until import stamp
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import opened_ledger, print_json
from budget_cpython.cli.ops.screen import (
    FAINT,
    GREEN,
    HEAD,
    Line,
    Screen,
    bar,
    cell,
    lay_out,
    sparkline,
    style_of,
)
from budget_cpython.ops.forecast import limit_status
from budget_cpython.ops.json_rows import balance_row
from budget_cpython.ops.past_windows import PastWindows, past_windows
from budget_cpython.ops.words import limit_text, short_amount


@command(f"PATH {LEDGER} --json --windows")
def history(options: argparse.Namespace) -> int:
    """Show what an account spent in past windows.

    Each limit has a line with a column for each window, the newest last, and a table. Ledgers keep
    the last 32 windows of each limit in which something was counted. A rolling window has its
    buckets.

    examples:
      microbudget history acme/research
      microbudget history acme --windows 32 --json
    """
    path = options.path
    with opened_ledger(options) as ledger:
        rows = [row for row in ledger.balance(path) if row.account == path]
        found = past_windows(rows, ledger.history(path))
    if not found:
        raise ValueError(f"account {path!r} has no limits of its own: nothing is counted there")
    if options.json:
        print_json(
            [
                {"now": balance_row(one.now), "past": [balance_row(row) for row in one.past]}
                for one in found
            ]
        )
        return 0
    screen = Screen()
    screen.show([cell(path, HEAD)])
    for one in found:
        screen.show(_lines(one, options.windows, screen))
    return 0


def _lines(one: PastWindows, most: int, screen: Screen) -> list[Line]:
    """Return the lines of one limit: a sparkline, and a table with the newest window first."""
    now = one.now
    text = limit_text(now.axis, now.limit, now.window)
    series = one.series()
    spent = [row.spent for row in one.past]
    highest = max(series, default=0)
    title: Line = [("\n", ""), (text, HEAD), ("  ", "")]
    title.append((sparkline(series, highest, screen.fancy), GREEN))
    lines: list[Line] = [title]
    if spent:
        figures = [f"{len(spent)} {'buckets' if one.is_rolling else 'windows before this one'}"]
        figures += [
            f"{name} {short_amount(now.axis, value)}"
            for name, value in (("highest", max(spent)), ("median", median_low(spent)))
        ]
        lines.append(cell(", ".join(figures), FAINT))
    size = 12 if screen.is_narrow else 24
    rows = []
    for row in ([] if one.is_rolling else [now]) + one.past[:most]:
        status = limit_status(row, row.begins_at)
        begins = stamp(row.begins_at) if row.begins_at else "the beginning"
        rows.append(
            [
                cell(f"{begins}{' (now)' * (row is now)}"),
                cell(short_amount(row.axis, row.spent), style_of(status)),
                cell("-" if row.limit is None else short_amount(row.axis, row.limit)),
                [] if one.is_rolling else bar(status, size, screen.fancy),
            ]
        )
    heads = ["BUCKET BEGAN" if one.is_rolling else "BEGAN", "SPENT", "LIMIT", ""]
    return lines + lay_out(heads, rows, "<>><", screen.width)

"""The command `microbudget status`."""

import argparse
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Any

from budget_core.log import printable
from budget_core.until import stamp, until
from budget_core.wall_clock import DAY
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import (
    ledger_url,
    opened_ledger,
    print_json,
    shown_place,
)
from budget_cpython.cli.ops.screen import (
    FAINT,
    HEAD,
    ORANGE,
    RED,
    Line,
    Screen,
    bar,
    cell,
    cut,
    lay_out,
    style_of,
)
from budget_cpython.ledger.journal import HOUR_S, LedgerEvent
from budget_cpython.ops.account_tree import AccountStatus, accounts_of, roots
from budget_cpython.ops.alert_log import ALERT, AlertStatus, undelivered
from budget_cpython.ops.forecast import NEAR, OVER, LimitStatus
from budget_cpython.ops.json_rows import account_row, refusal_row
from budget_cpython.ops.words import limit_text, short_amount
from budget_cpython.page.sentences import grouped, refusal
from budget_cpython.wall_clock import WALL

MOST_LIMITS = 40  # shown without --all
HAS_LIMIT_OVER = 3
_ALERTS_S = 7 * DAY  # for which an alert that was not delivered is shown
_MOST_ALERTS = 10
_MOST_REFUSALS = 10  # accounts and limits
_REFUSALS = ("refused", "observed")
_LONGEST_LIMIT = 24
_LONGEST_NARROW = 17


@command(f"PATH {LEDGER} --json --all --check")
def status(options: argparse.Namespace) -> int:
    """Show limits, what is spent, held and left, and what ends before its reset.

    Each limit has a bar of what is spent and held, and the time until its window ends. EMPTY IN is
    when all of it will be spent, if that is before the reset: from the rate of its window so far,
    once that is 5 minutes old and a tenth of the limit is spent. Of more than 40 limits those
    nearest their end are shown, the tree with --all. Below are calls refused in the last hour: an
    account with a little left may have too little for a call.

    examples:
      microbudget status
      microbudget status acme/research --all
      microbudget status --ledger redis://localhost --json
      microbudget status --check > /dev/null || echo 'a limit is over'

    exit codes:
      3  with --check: a limit is over
    """
    with opened_ledger(options) as ledger:
        rows = ledger.balances(options.path)
        events = ledger.events(options.path, kinds=(ALERT,))
        refused = ledger.events(options.path, kinds=_REFUSALS)
        if options.path:
            rows += [row for row in ledger.balance(options.path) if row.account != options.path]
    now = int(WALL())
    accounts = accounts_of(rows, now)
    alerts = undelivered(events, now - _ALERTS_S)
    refused = [one for one in refused if one.at > now - HOUR_S]
    if options.json:
        found: dict[str, Any] = {"at": now}
        found["accounts"] = [account_row(one) for one in accounts.values()]
        found["alerts"] = [one._asdict() for one in alerts]
        found["refused"] = [refusal_row(one) for one in refused]
        print_json(found)
    else:
        screen = Screen()
        screen.show(status_lines(accounts, now, screen, options.all))
        screen.show(refusal_lines(refused, screen))
        screen.show(alert_lines(alerts, screen))
        if not accounts:
            place = shown_place(ledger_url(options))
            screen.show([cell(f"no account of {place} has limits: set some with")])
            screen.show([cell("  microbudget limits set acme '$5/day'")])
    limits = (limit for account in accounts.values() for limit in account.limits)
    return HAS_LIMIT_OVER if options.check and any(one.state == OVER for one in limits) else 0


def status_lines(
    accounts: dict[str, AccountStatus], now: int, screen: Screen, show_all: bool
) -> list[Line]:
    """Return the lines of `status`: how many limits are over, then a table of limits."""
    if not accounts:
        return []
    limits = [limit for account in accounts.values() for limit in account.limits]
    if show_all or len(limits) <= MOST_LIMITS:
        tree = [row for top in roots(accounts) for row in top.walk()]
        rows = [
            ("" if at else "  " * depth + account.name, limit)
            for depth, account in tree
            for at, limit in enumerate(account.limits)
        ]
    else:
        every = ((account.path, limit) for account in accounts.values() for limit in account.limits)
        rows = nlargest(MOST_LIMITS, every, key=lambda row: row[1].urgency)
    lines = [summary(len(accounts), limits), [], *_table(rows, now, screen)]
    if hidden := len(limits) - len(rows):
        text = f"{hidden:,} limits further from their end are not shown: give --all, or a PATH"
        lines += [[], cell(text, FAINT)]
    return lines


def refusal_lines(events: Sequence[LedgerEvent], screen: Screen) -> list[Line]:
    """Return the lines of refused calls by account and limit, the most first, with their sums.

    Those that were only observed, since their budget refuses nothing, are counted apart.
    """
    if not events:
        return []
    line: Line = []
    for kind, text, style in (
        ("refused", "refused in the last hour", RED),
        ("observed", "made in the last hour that cutoff would have refused", ORANGE),
    ):
        times = sum(one.times for one in events if one.kind == kind)
        if times:
            more = f"{', ' * bool(line)}{times:,} call{'s' * (times != 1)} {text}"
            line += [(more, style)]
    found = grouped(refusal(one, lambda path: True) for one in reversed(events))
    found.sort(key=lambda one: one.times, reverse=True)
    rows = [
        [
            cell(one.account, HEAD),
            cell(one.limit),
            cell("" if one.limited == one.account else one.limited),
            cell(f"{one.times:,}", ORANGE if one.would else RED),
            cell(one.reason, FAINT),
        ]
        for one in found[:_MOST_REFUSALS]
    ]
    names = ["ACCOUNT", "LIMIT", "OF", "CALLS", "LAST"]
    left_out = {"OF", "LAST"} if screen.is_narrow else set()
    if all(one.limited == one.account for one in found):
        left_out.add("OF")
    return [[], line, [], *lay_out(names, rows, "<<<><", screen.width, left_out=left_out)]


def alert_lines(alerts: Sequence[AlertStatus], screen: Screen) -> list[Line]:
    """Return the lines of alerts that were not delivered, the last ones of many."""
    if not alerts:
        return []
    dead = sum(not one.is_pending for one in alerts)
    pending = len(alerts) - dead
    head = cell(f"{len(alerts):,} alert{'s' * (len(alerts) != 1)} not delivered", RED)
    head += cell(f": {pending:,} to be tried again, {dead:,} dead")
    rows = [
        [
            cell(one.to, HEAD),
            cell(one.account),
            cell(one.of.partition("/")[0]),
            cell(one.state, ORANGE if one.is_pending else RED),
            cell(str(one.attempt)),
            cell(stamp(one.at), FAINT),
            cell(printable(one.reason)),
        ]
        for one in alerts[-_MOST_ALERTS:]
    ]
    names = ["CHANNEL", "ACCOUNT", "ALERT", "STATE", "TRIES", "SINCE", "REASON"]
    return [[], head, [], *lay_out(names, rows, "<<<<><<", screen.width)]


def summary(accounts: int, limits: list[LimitStatus]) -> Line:
    """Return the line that counts accounts, and limits by what is wrong with them."""
    over = sum(one.state == OVER for one in limits)
    early = sum(one.ends_early for one in limits)
    near = sum(one.state == NEAR and not one.ends_early for one in limits)
    line = cell(f"{accounts:,} account{'s' * (accounts != 1)}", HEAD)
    for count, text, style in (
        (over, "over", RED),
        (early, "empty before the reset", ORANGE),
        (near, "near the end", ORANGE),
    ):
        if count:
            line += [(", ", ""), (f"{count:,} {text}", style)]
    return line if over or early or near else [*line, (", no limit is near its end", "")]


def _table(rows: Iterable[tuple[str, LimitStatus]], now: int, screen: Screen) -> list[Line]:
    narrow = screen.is_narrow
    longest = _LONGEST_NARROW if narrow else _LONGEST_LIMIT
    head = ["ACCOUNT", "LIMIT", "USED", "SPENT", "HELD", "LEFT", "RESETS IN", "EMPTY IN"]
    sides = "<<<>>>>>"
    left_out = {"HELD", "LEFT"} if narrow else set()
    table = []
    for name, status in rows:
        row = status.balance
        style = style_of(status)
        text = limit_text(row.axis, row.limit, row.window)
        cells = [
            cell(name, HEAD),
            cell(cut(text, longest) if screen.width else text),
            bar(status, 6 if narrow else 12, screen.fancy),
            cell(short_amount(row.axis, row.spent), style),
            cell(short_amount(row.axis, row.held) if row.held else "-", "" if row.held else FAINT),
            cell("-" if row.left is None else short_amount(row.axis, row.left)),
            cell(time_until(row.resets_at, now, narrow) or "never", FAINT),
            cell(empty_in(status, now, narrow), style),
        ]
        table.append(cells)
    return lay_out(head, table, sides, screen.width, left_out=left_out)


def empty_in(status: LimitStatus, now: int, short: bool) -> str:
    """Return when a limit will be empty, if that is before its reset."""
    if status.state == OVER:
        return "over"
    return time_until(status.empty_at, now, short) if status.ends_early else ""


def time_until(at: int | None, now: int, short: bool = False) -> str:
    """Return how long it is until a Unix second, as in `3 h 12 min`; nothing for `None`.

    The `short` form has its first unit alone.
    """
    words = "" if at is None else until(at, now).partition(", in ")[2] or "now"
    return " ".join(words.split()[:2]) if short else words

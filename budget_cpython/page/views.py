"""What each view of the page shows, from a snapshot of the ledger."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent
from budget_cpython.ops.account_tree import AccountStatus
from budget_cpython.ops.alert_log import ALERT, undelivered
from budget_cpython.ops.forecast import NEAR, OVER, LimitStatus, limit_status
from budget_cpython.ops.spending import Spending, spending_by
from budget_cpython.page.charts import BurnDown, burn_down, has_chart
from budget_cpython.page.doors import PageReader
from budget_cpython.page.sentences import grouped, refusal
from budget_cpython.page.watch import MOST_EVENTS, MOST_HOLDS, Snapshot, first_hour
from budget_cpython.web.error_responses import left_only

PAGE = 100  # accounts
MOST_IN_TREE = 200  # beyond it those nearest their end are first
MOST_ROWS = 20  # of holds, refusals and the like
MOST_CARDS = 8
MOST_OVER = 10
MOST_SPENDERS = 8
_MOST_SHARE = 1000


class AccountRow(NamedTuple):
    """An account in the table: `label` is shown, `depth` is how far it is indented."""

    account: AccountStatus
    label: str
    depth: int


class SpendRow(NamedTuple):
    """The usage of a model, an account or a tool; `share` is of the largest, in thousandths.

    The last row may be of all `others`, which is not one.
    """

    name: str
    nano_usd: int
    tokens: int
    calls: int
    share: int
    is_one: bool


def overview(
    snapshot: Snapshot,
    reader: PageReader,
    asked: Mapping[str, str],
    rows: Sequence[HourOfUsage] | None,
    hours: int,
) -> dict[str, Any]:
    """Return the values of the first view; `rows` is `None` where the usage cannot be read."""
    ranked = snapshot.ranked
    over = [account for account in ranked if account.state == OVER]
    early = sum(one.state != OVER and one.nearest.ends_early for one in ranked)
    near = sum(one.state == NEAR and not one.nearest.ends_early for one in ranked)
    refused = refusals_by_account(snapshot)  # some have a little left, but too little for a call
    stopped = [one for one in ranked if one.state != OVER and one.path in refused]
    stopped.sort(key=lambda account: -refused[account.path])
    since = first_hour(snapshot.at, hours)
    return {
        "totals": {"accounts": len(ranked), "over": len(over), "early": early}
        | {"near": near, "holds": len(snapshot.holds), "refused": sum(refused.values())},
        "all_holds": len(snapshot.holds) < MOST_HOLDS,
        "all_refusals": len(snapshot.refusals) < MOST_EVENTS,
        "over": (over + stopped)[:MOST_OVER],
        "refused": refused,
        "stopped_by": {one.account: refusal(one, reader.sees) for one in snapshot.refusals},
        "cards": _cards(ranked, rows or [], since, snapshot.at),
        **accounts_table(snapshot, asked),
        **spending(rows),
        **log_of(snapshot, reader.sees),
    }


def one_account(
    snapshot: Snapshot,
    reader: PageReader,
    path: str,
    chain: Sequence[Balance],
    rows: Sequence[HourOfUsage] | None,
    hours: int,
) -> dict[str, Any]:
    """Return the values of an account's view; `snapshot` is of it and all below it."""
    account = snapshot.accounts.get(path)
    since = first_hour(snapshot.at, hours)
    above = [row if reader.sees(row.account) else left_only(row) for row in chain]
    charts = [
        (status, burn_down(status, rows or [], since, snapshot.at))
        for status in (account.limits if account else [])
    ]
    below = [one for one in snapshot.ranked if one is not account]
    return {
        "account": account,
        "charts": charts,
        "above": [limit_status(row, snapshot.at) for row in above if row.account != path],
        "rows": [AccountRow(one, one.path[len(path) + 1 :], 0) for one in below[:PAGE]],
        "count": len(below),
        "refused": refusals_by_account(snapshot),
        **spending(rows),
        **log_of(snapshot, reader.sees),
    }


def accounts_table(snapshot: Snapshot, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the rows of the accounts that are asked for, a page of a hundred at most.

    Up to 200 are shown as a tree, more with those nearest their end first.
    """
    query = asked.get("q", "").strip().lower()[:100]
    found = [one for one in snapshot.ranked if query in one.path.lower()]
    order = asked.get("order") or ("tree" if len(found) <= MOST_IN_TREE else "nearest")
    if order == "tree":
        found.sort(key=lambda account: account.path.split("/"))
    pages = max(1, -(-len(found) // PAGE))
    number = asked.get("page", "")
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    page = min(pages, max(1, int(number))) if is_number else 1
    shown = found[(page - 1) * PAGE : page * PAGE]
    return {
        "query": query,
        "order": "tree" if order == "tree" else "nearest",
        "page": page,
        "pages": pages,
        "count": len(found),
        "rows": list(_tree(shown)) if order == "tree" else [_flat(one) for one in shown],
    }


def _tree(accounts: Iterable[AccountStatus]) -> Iterable[AccountRow]:
    """Yield rows by path; one whose parent is not shown before it has its whole path."""
    depths: dict[str, int] = {}
    for account in accounts:
        above = account.parent
        if above is not None and above.path in depths:
            depths[account.path] = depths[above.path] + 1
            yield AccountRow(account, account.name, depths[account.path])
        else:
            depths[account.path] = 0
            yield _flat(account)


def _flat(account: AccountStatus) -> AccountRow:
    return AccountRow(account, account.path, 0)


def _cards(
    ranked: Iterable[AccountStatus], rows: Sequence[HourOfUsage], since: int, now: int
) -> list[tuple[LimitStatus, BurnDown]]:
    """Return the limits that are nearest their end but not over, each with its burn-down."""
    limits = [one for account in ranked for one in account.limits if one.balance.spent]
    limits = [one for one in limits if one.state != OVER and has_chart(one)]
    cards = []
    for status in nlargest(MOST_CARDS, limits, key=lambda one: one.urgency):
        chart = burn_down(status, rows, since, now)
        if chart is not None:
            cards.append((status, chart))
    return cards


def spending(rows: Sequence[HourOfUsage] | None) -> dict[str, Any]:
    """Return the usage by model, account and tool, the most first."""
    if rows is None:
        return {"spend": None}
    models = [row for row in rows if not row.tool]
    tools = [row for row in rows if row.tool]
    tables = (
        ("Models", "model", models),
        ("Accounts", "account", models),
        ("Tools", "tool", tools),
    )
    found = [(title, name, _spenders(spending_by(used, [name]))) for title, name, used in tables]
    return {"spend": found}


def _spenders(found: Sequence[Spending]) -> list[SpendRow]:
    shown, rest = found[:MOST_SPENDERS], found[MOST_SPENDERS:]
    place = next((at for at in range(3) if any(one.rank[at] for one in shown)), 0)
    most = max((one.rank[place] for one in shown), default=0) or 1
    rows = []
    for one in shown:
        share = _MOST_SHARE * one.rank[place] // most
        rows.append(SpendRow(one.names[0] or "unknown", *one.rank, share, True))
    if rest:
        nano_usd, tokens, calls = (sum(one.rank[at] for one in rest) for at in range(3))
        rows.append(SpendRow(f"{len(rest)} others", nano_usd, tokens, calls, 0, False))
    return rows


def log_of(snapshot: Snapshot, sees: Callable[[str], bool]) -> dict[str, Any]:
    """Return the last refusals, changes and dead alerts, the newest first, and the oldest holds."""
    dead = [one for one in undelivered(snapshot.changes) if not one.is_pending]
    changes: list[LedgerEvent] = [one for one in snapshot.changes if one.kind != ALERT]
    return {
        "refusals": grouped(refusal(one, sees) for one in reversed(snapshot.refusals))[:MOST_ROWS],
        "changes": changes[: -MOST_ROWS - 1 : -1],
        "dead": dead[: -MOST_ROWS - 1 : -1],
        "holds": snapshot.holds[:MOST_ROWS],
        "hold_count": len(snapshot.holds),
    }


def refusals_by_account(snapshot: Snapshot) -> dict[str, int]:
    """Return how many calls of each account were refused in the last hour."""
    found: dict[str, int] = {}
    for event in snapshot.refusals:
        if event.kind == "refused" and event.at > snapshot.at - HOUR_S:
            found[event.account] = found.get(event.account, 0) + event.times
    return found

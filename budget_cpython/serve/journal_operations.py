"""The operations over HTTP for operators: what they read, and what programs note."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from starlette.exceptions import HTTPException

from budget_core.errors import refuse
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.serve.field_types import Json
from budget_cpython.serve.messages import (
    AddedReply,
    AfterQuery,
    BalancesPage,
    EventRow,
    EventsQuery,
    EventsReply,
    EventsRequest,
    MostQuery,
    NumbersReply,
    OpenHoldRow,
    OpenHoldsReply,
    UsageQuery,
    UsageReply,
    UsageRequest,
    UsageRow,
)
from budget_cpython.serve.operations import AuthorizedRequest, serves, show_balance
from budget_cpython.web.devices import ROOT
from budget_cpython.web.error_responses import may_see

MOST_ROWS = 1000  # of a page, but for the rest of an account's or an hour's
_DIGITS = 15


@serves("balances")
async def balances(call: AuthorizedRequest, asked: AfterQuery) -> BalancesPage:
    """Return the balance of each limit of the account and of all below it, a page at a time."""
    rows = await call.ledger.call("balances", _selected(call))
    seen = [row for row in rows if row.account > asked.after and _is_shown(call, row.account)]
    page, following = _page(seen, lambda row: row.account)
    return BalancesPage([show_balance(row, True) for row in page], following)


@serves("open_holds")
async def holds(call: AuthorizedRequest, asked: MostQuery) -> OpenHoldsReply:
    """Return the holds of the account and of all below it that are open, the oldest first."""
    rows = await call.ledger.call("open_holds", _selected(call), _most(asked))
    return OpenHoldsReply([OpenHoldRow(*row) for row in rows if _is_shown(call, row.path)])


@serves("events")
async def events(call: AuthorizedRequest, asked: EventsQuery) -> EventsReply:
    """Return the last events of the account and of all below it, or the first after a number."""
    kinds = [kind for kind in asked.kinds.split(",") if kind]
    if "\0" in asked.kinds:
        refuse("kinds", "words with commas between, without NUL", asked.kinds)
    after = None if asked.after is UNSET else _number("after", asked.after)
    rows = await call.ledger.call("events", _selected(call), kinds, after, _most(asked))
    return EventsReply([EventRow(*_shown(call, row)) for row in rows])


@serves("usage")
async def usage(call: AuthorizedRequest, asked: UsageQuery) -> UsageReply:
    """Return the usage of the account and of all below it by model and tool, page by page."""
    rows = await call.ledger.call("usage", _selected(call), _number("since", asked.since))
    page, last = _page(rows, lambda row: row.hour)
    return UsageReply([UsageRow(*row) for row in page], None if last is None else last + 1)


@serves("note")
async def note(call: AuthorizedRequest, asked: EventsRequest) -> NumbersReply:
    """Append events of the account; one with a name, which is noted once, takes a key for all."""
    if call.key is not None and call.key.path and any(event.name for event in asked.events):
        raise HTTPException(403, "an event with a name takes a key for every account")
    found = [LedgerEvent(row.kind, call.path, row.details, row.name) for row in asked.events]
    return NumbersReply(await call.ledger.call("note", found))


@serves("add_usage")
async def add_usage(call: AuthorizedRequest, asked: UsageRequest) -> AddedReply:
    """Add what calls used to what is known of their hour, model and tool; no limit counts it."""
    rows = asked.rows
    found = [HourOfUsage(row.hour, call.path, row.model, row.tool, row.amounts) for row in rows]
    await call.ledger.call("add_usage", found)
    return AddedReply(len(found))


def _selected(call: AuthorizedRequest) -> str:
    """Return the path that a request reads: the key's account where it names none."""
    return call.path or ("" if call.key is None else call.key.path)


def _is_shown(call: AuthorizedRequest, path: str) -> bool:
    return may_see(call.key, path) and not path.startswith(ROOT)


def _shown(call: AuthorizedRequest, event: LedgerEvent) -> LedgerEvent:
    """Return an event without what others used of an account above the key's, as answers are."""
    limit = event.details.get("limit")
    if not isinstance(limit, dict) or may_see(call.key, str(limit.get("account", event.account))):
        return event
    known = {
        name: limit[name] for name in ("account", "axis", "window", "resets_at") if name in limit
    }
    hidden = {"cap": _left_of(limit), "spent": 0, "held": 0}
    return event._replace(details={**event.details, "limit": {**known, **hidden}})


def _left_of(limit: Json) -> int:
    """Return what was left of a limit that refused a call: it is the cap that is shown."""
    cap, spent, held = (limit.get(name, 0) for name in ("cap", "spent", "held"))
    are_whole = all(isinstance(one, int) for one in (cap, spent, held))
    return max(0, cap - spent - held) if are_whole else 0


def _page(rows: list[Any], place: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Return a page of sorted rows, all of its last place, and that place if more follow."""
    if len(rows) <= MOST_ROWS:
        return rows, None
    last = place(rows[MOST_ROWS - 1])
    page = [row for row in rows if place(row) <= last]
    return page, last if len(page) < len(rows) else None


def _most(asked: MostQuery) -> int:
    return min(MOST_ROWS, _number("most", asked.most))


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        refuse(name, "a whole number", text)
    return int(text)

"""The operations over HTTP for operators: what they read, and what programs note."""

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException

from budget_core.errors import refuse
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.serve.devices import ROOT
from budget_cpython.serve.error_responses import may_see
from budget_cpython.serve.operations import AuthorizedRequest, Json, operation, show_balance

MOST_ROWS = 1000  # of a page, but for the rest of an account's or an hour's
EVENT = ("kind", "account", "details", "name", "at", "number")
_DIGITS = 15


@operation("GET", "read", "AllBalances", optional=("after",), also_on_all=True)
async def balances(call: AuthorizedRequest) -> Json:
    """Return the balance of each limit of the account and of all below it, a page at a time."""
    after = call.fields.get("after", "")
    rows = await call.ledger.call("balances", _selected(call))
    seen = [row for row in rows if row.account > after and _is_shown(call, row.account)]
    page, following = _page(seen, lambda row: row.account)
    return {"balances": [show_balance(row, True) for row in page], "next": following}


@operation("GET", "read", "OpenHolds", optional=("most",), also_on_all=True)
async def holds(call: AuthorizedRequest) -> Json:
    """Return the holds of the account and of all below it that are open, the oldest first."""
    rows = await call.ledger.call("open_holds", _selected(call), _most(call))
    return {"holds": [row._asdict() for row in rows if _is_shown(call, row.path)]}


@operation("GET", "read", "Events", optional=("kinds", "after", "most"), also_on_all=True)
async def events(call: AuthorizedRequest) -> Json:
    """Return the last events of the account and of all below it, or the first after a number."""
    kinds = [kind for kind in call.fields.get("kinds", "").split(",") if kind]
    if any("\0" in kind for kind in kinds):
        refuse("kinds", "words with commas between, without NUL", call.fields["kinds"])
    given = call.fields.get("after")
    after = None if given is None else _number("after", given)
    rows = await call.ledger.call("events", _selected(call), kinds, after, _most(call))
    return {"events": [_shown(call, row)._asdict() for row in rows]}


@operation("GET", "read", "HoursOfUsage", optional=("since",), also_on_all=True)
async def usage(call: AuthorizedRequest) -> Json:
    """Return the usage of the account and of all below it by model and tool, page by page."""
    since = _number("since", call.fields.get("since", "0"))
    rows = await call.ledger.call("usage", _selected(call), since)
    page, last = _page(rows, lambda row: row.hour)
    return {"usage": [row._asdict() for row in page], "next": None if last is None else last + 1}


@operation("POST", "limits", "Numbers", required=("events",), also_on_all=True)
async def note(call: AuthorizedRequest) -> Json:
    """Append events of the account; one with a name, which is noted once, takes a key for all."""
    found = [LedgerEvent(row.pop("kind", ""), call.path, **row) for row in _rows(call, "events")]
    if call.key is not None and call.key.path and any(event.name for event in found):
        raise HTTPException(403, "an event with a name takes a key for every account")
    return {"numbers": await call.ledger.call("note", found)}


@operation("POST", "charge or reserve", "Added", required=("rows",))
async def add_usage(call: AuthorizedRequest) -> Json:
    """Add what calls used to what is known of their hour, model and tool; no limit counts it."""
    rows = _rows(call, "rows")
    found = [HourOfUsage(path=call.path, **{"model": "", "tool": "", **row}) for row in rows]
    await call.ledger.call("add_usage", found)
    return {"added": len(found)}


_ROWS = {
    "events": ({"kind", "details", "name"}, {"kind"}),
    "rows": ({"hour", "model", "tool", "amounts"}, {"hour", "amounts"}),
}


def _rows(call: AuthorizedRequest, name: str) -> list[Json]:
    """Return the rows of a field; `ValueError` unless they are objects with known fields."""
    known, required = _ROWS[name]
    rows = call.fields[name]
    for row in rows if isinstance(rows, list) else [None]:
        if not isinstance(row, dict) or not required <= set(row) <= known:
            refuse(name, f"a list of objects of {', '.join(sorted(known))}", row)
        if not isinstance(row.get("details", {}), dict):
            refuse("details", "an object", row["details"])
    return [dict(row, details=row.get("details", {})) if name == "events" else row for row in rows]


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


def _most(call: AuthorizedRequest) -> int:
    return min(MOST_ROWS, _number("most", call.fields.get("most", str(MOST_ROWS))))


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        refuse(name, "a whole number", text)
    return int(text)

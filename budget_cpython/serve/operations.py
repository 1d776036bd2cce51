"""What can be asked over HTTP: each operation with its fields, its right and its answer."""

import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from budget_core.errors import refuse
from budget_core.ledger.bucket import HELD
from budget_core.ledger.limit import Limit, check_amounts, check_key
from budget_core.ledger.memory import TTL
from budget_core.ledger.records import Balance, Hold
from budget_cpython.serve.engine import Engine
from budget_cpython.serve.keys import Key
from budget_cpython.serve.refusals import may_see

Json = dict[str, Any]
PAGE = 100  # of the longest paths, within what a small client reads
BALANCE = ("account", "axis", "window", "limit", "spent", "held", "left", "debt")
TIMES = ("begins_at", "resets_at")


@dataclass(frozen=True)
class Asked:
    """A request that was let in: `path` is checked, `fields` are known, `key` is whose it is."""

    engine: Engine
    key: Key | None
    path: str
    fields: Json
    idempotency_key: str | None = None


@dataclass(frozen=True)
class Operation:
    """One operation: `required` and `optional` name its fields, by the schema of each."""

    method: str
    right: str
    summary: str
    answer: str
    act: Callable[[Asked], Awaitable[Json]]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    on_account: bool = True
    errors: tuple[int, ...] = field(default=())


async def reserve(asked: Asked) -> Json:
    """Hold amounts before a call."""
    ttl = asked.fields.get("ttl")
    arguments = (asked.fields["amounts"], _key(asked), TTL if ttl is None else ttl)
    return show_hold(await asked.engine.call("reserve", asked.path, *arguments))


async def charge(asked: Asked) -> Json:
    """Record amounts without asking."""
    arguments = (asked.fields["amounts"], _key(asked))
    return show_hold(await asked.engine.call("charge", asked.path, *arguments))


async def commit(asked: Asked) -> Json:
    """Record what a call used."""
    actual = asked.fields.get("actual")
    used = None if actual is None else check_amounts(actual)
    return show_hold(await asked.engine.call("commit", _named(asked), used))


async def release(asked: Asked) -> Json:
    """Give back what was held."""
    return show_hold(await asked.engine.call("release", _named(asked)))


async def extend(asked: Asked) -> Json:
    """Keep a hold live."""
    ttl = asked.fields.get("ttl")
    return show_hold(await asked.engine.call("extend", _named(asked), TTL if ttl is None else ttl))


async def hold(asked: Asked) -> Json:
    """Look up a hold."""
    return show_hold(await asked.engine.call("hold", asked.path, _named(asked).id))


async def balance(asked: Asked) -> Json:
    """Tell what stands against each limit."""
    rows = await asked.engine.call("balance", asked.path)
    return {"balances": [show_balance(row, may_see(asked.key, row.account)) for row in rows]}


async def history(asked: Asked) -> Json:
    """Tell what was counted in windows that are over."""
    rows = await asked.engine.call("history", asked.path)
    return {"balances": [show_balance(row, True) for row in rows]}


async def limits(asked: Asked) -> Json:
    """Tell what an account's own limits are."""
    return show_limits(await asked.engine.call("limits", asked.path))


async def set_limits(asked: Asked) -> Json:
    """Give an account other limits."""
    rows = asked.fields["limits"]
    if not isinstance(rows, list):
        refuse("limits", "a list of {axis, cap, window}", rows)
    await asked.engine.call("set_limits", asked.path, [_read_limit(row) for row in rows])
    return await limits(asked)


async def accounts(asked: Asked) -> Json:
    """List the accounts that a key is for, a page at a time."""
    after = asked.fields.get("after", "")
    paths: Iterable[str] = await asked.engine.call("accounts")
    seen = [path for path in paths if path > after and may_see(asked.key, path)]
    return {"accounts": seen[:PAGE], "next": seen[PAGE - 1] if len(seen) > PAGE else None}


async def expire(asked: Asked) -> Json:
    """Count as spent what is over."""
    return {"expired": await asked.engine.call("expire")}


OPERATIONS = {
    "reserve": Operation(
        "POST", "reserve", "Hold amounts before a call, on every limit of the account and of all "
        "above it, or refuse", "Hold", reserve, ("amounts",), ("key", "ttl"), errors=(409, 429),
    ),
    "charge": Operation(
        "POST", "charge", "Record amounts as spent without asking", "Hold", charge, ("amounts",),
        ("key",), errors=(409,),
    ),
    "commit": Operation(
        "POST", "reserve", "Record what a call used in the place of its hold", "Hold", commit,
        ("id",), ("actual",),
    ),
    "release": Operation(
        "POST", "reserve", "Give back a hold whose call was never made", "Hold", release, ("id",)
    ),
    "extend": Operation(
        "POST", "reserve", "Keep a hold live for that long from now at least", "Hold", extend,
        ("id",), ("ttl",), errors=(409,),
    ),
    "hold": Operation("GET", "read", "Look up a hold", "Hold", hold, ("id",)),
    "balance": Operation(
        "GET", "read", "Tell what stands against each limit of an account and of all above it; of "
        "accounts above the key's own, what is left only", "Balances", balance,
    ),
    "history": Operation(
        "GET", "read", "Tell what an account's own limits counted in windows that are over",
        "Balances", history,
    ),
    "limits": Operation("GET", "read", "Tell an account's own limits", "Limits", limits),
    "set_limits": Operation(
        "PUT", "limits", "Give an account these limits and no others, none to make it an account "
        "no more", "Limits", set_limits, ("limits",),
    ),
    "accounts": Operation(
        "GET", "read", f"List the key's accounts, sorted, {PAGE} at a time", "Accounts", accounts,
        (), ("after",), on_account=False,
    ),
    "expire": Operation(
        "POST", "limits", "Count as spent what holds stand for that are over, now; for keys of "
        "every account", "Expired", expire, on_account=False,
    ),
}  # fmt: skip


def place_of(name: str) -> str:
    """Return the first part of an operation's URL."""
    return "/v1/limits" if name == "set_limits" else f"/v1/{name}"


def show_hold(hold: Hold) -> Json:
    """Return a hold as JSON."""
    names = ("path", "id", "amounts", "state", "expires", "actual")
    shown = {name: getattr(hold, name) for name in names}
    if shown["state"] == HELD:
        shown["actual"] = None  # it may have been settled by another thread just now
    return shown


def show_balance(row: Balance, whole: bool) -> Json:
    """Return a balance as JSON; one that is not shown whole is as if only what is left were."""
    if not whole:
        names = (row.account, row.axis, row.window, row.left)
        row = Balance(*names, 0, 0, row.begins_at, row.resets_at)
    return {name: getattr(row, name) for name in BALANCE + TIMES}


def show_limits(rows: Iterable[Limit]) -> Json:
    """Return limits as JSON."""
    names = ("axis", "cap", "window")
    return {"limits": [{name: getattr(row, name) for name in names} for row in rows]}


def _key(asked: Asked) -> str:
    """Return what makes a repeated request do nothing twice; a new one where none was given."""
    key, header = asked.fields.get("key"), asked.idempotency_key
    if key is not None and header is not None and key != header:
        raise ValueError("key and the header Idempotency-Key must be the same where both are given")
    if key is None and header is None:
        return "made-" + secrets.token_hex(16)
    return check_key(header if key is None else key)


def _named(asked: Asked) -> Hold:
    given = asked.fields["id"]
    check_key(given[1:] if isinstance(given, str) and given[:1] == "#" else given)
    return Hold(asked.path, given)


def _read_limit(row: Any) -> Limit:
    if not isinstance(row, dict) or not {"axis", "cap"} <= set(row) <= {"axis", "cap", "window"}:
        refuse("a limit", 'like {"axis": "tokens", "cap": 1000, "window": "day"}', row)
    return Limit(row["axis"], row["cap"], row.get("window", "run"))

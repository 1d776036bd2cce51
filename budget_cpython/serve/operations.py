"""The operations over HTTP: each with its method, right, fields and answer."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from budget_core.errors import refuse
from budget_core.ledger.bucket import HELD
from budget_core.ledger.checks import MAX_KEY, check_amounts, check_key
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.limit import Limit
from budget_core.ledger.records import TTL, Balance, Hold
from budget_cpython.ledger.limit_changes import CHANGED_BY
from budget_cpython.ops.json_rows import balance_row
from budget_cpython.serve.devices import AXES, ROOT, DeviceReports
from budget_cpython.serve.error_responses import may_see
from budget_cpython.serve.keys import Key
from budget_cpython.serve.served_ledger import ServedLedger

Json = dict[str, Any]
PAGE = 100  # of the longest paths, within what a small client reads
HOLD = ("path", "id", "amounts", "state", "expires_at", "actual")


@dataclass(frozen=True)
class AuthorizedRequest:
    """An authorized request: `path` is valid, `fields` have known names, `key` may be `None`."""

    ledger: ServedLedger
    key: Key | None
    path: str
    fields: Json
    devices: DeviceReports
    idempotency_key: str | None = None


Handler = Callable[[AuthorizedRequest], Awaitable[Json]]


@dataclass(frozen=True)
class Operation:
    """One operation; `answer` names the schema of its answer, `errors` its own statuses.

    `right` is one that a key needs, or several of which it needs one, as in `charge or reserve`. An
    operation `also_on_all` has a URL without an account as well, for all that the key is for.
    """

    handler: Handler
    summary: str
    method: str
    right: str
    answer: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    on_account: bool = True
    errors: tuple[int, ...] = ()
    also_on_all: bool = False


OPERATIONS: dict[str, Operation] = {}
_NOUNS = {"set_limits": "limits", "note": "events", "add_usage": "usage"}


def operation(method: str, right: str, answer: str, **more: Any) -> Callable[[Handler], Handler]:
    """Add a handler to `OPERATIONS`, with its docstring as the summary."""

    def add(handler: Handler) -> Handler:
        summary = " ".join((handler.__doc__ or "").split()).rstrip(".")
        row = Operation(handler, summary, method, right, answer, **more)
        OPERATIONS[handler.__name__] = row
        return handler

    return add


@operation(
    "POST",
    "reserve",
    "Hold",
    required=("amounts",),
    optional=("key", "ttl", "wait"),
    errors=(409, 429),
)
async def reserve(call: AuthorizedRequest) -> Json:
    """Hold amounts before a call, on every limit of the account and of its parents, or refuse."""
    ttl, wait = call.fields.get("ttl"), call.fields.get("wait")
    return await _record(call, "reserve", TTL if ttl is None else ttl, wait)


@operation("POST", "charge", "Hold", required=("amounts",), optional=("key",), errors=(409,))
async def charge(call: AuthorizedRequest) -> Json:
    """Record amounts as spent, also above the limits."""
    return await _record(call, "charge")


@operation("POST", "reserve", "Hold", required=("id",), optional=("actual",))
async def commit(call: AuthorizedRequest) -> Json:
    """Settle a hold with the amounts that its call used."""
    actual = call.fields.get("actual")
    return await _settle(call, "commit", None if actual is None else check_amounts(actual))


@operation(
    "POST",
    "reserve",
    "Hold",
    required=("id", "amounts"),
    optional=("actual", "key", "ttl"),
    errors=(409, 429),
)
async def renew(call: AuthorizedRequest) -> Json:
    """Settle a hold and take the next one in one step, or refuse and change nothing."""
    actual, ttl, key = call.fields.get("actual"), call.fields.get("ttl"), _key(call)
    used = None if actual is None else check_amounts(actual)
    named = _key_of_account(call, key)
    more = (used, call.fields["amounts"], named, TTL if ttl is None else ttl)
    try:
        return await _settle(call, "renew", *more, known_as=key)
    except KeyReusedError as error:
        raise KeyReusedError(call.path, key) from error


@operation("POST", "reserve", "Hold", required=("id",))
async def release(call: AuthorizedRequest) -> Json:
    """Give back a hold whose call was not made."""
    return await _settle(call, "release")


@operation("POST", "reserve", "Hold", required=("id",), optional=("ttl",), errors=(409,))
async def extend(call: AuthorizedRequest) -> Json:
    """Keep a hold live for at least `ttl` seconds from now."""
    ttl = call.fields.get("ttl")
    return await _settle(call, "extend", TTL if ttl is None else ttl)


@operation("GET", "read", "Hold", required=("id",))
async def hold(call: AuthorizedRequest) -> Json:
    """Look up a hold."""
    return await _settle(call, "hold")


@operation("GET", "read", "Balances")
async def balance(call: AuthorizedRequest) -> Json:
    """Return the balance of each limit of the account and of its parents.

    Of accounts above the key's own, only what is left is shown.
    """
    rows = await call.ledger.call("balance", call.path)
    return {"balances": [show_balance(row, may_see(call.key, row.account)) for row in rows]}


@operation("GET", "read", "Balances")
async def history(call: AuthorizedRequest) -> Json:
    """Return the counts of the account's own limits in past windows."""
    rows = await call.ledger.call("history", call.path)
    return {"balances": [show_balance(row, True) for row in rows]}


@operation("GET", "read", "Limits")
async def limits(call: AuthorizedRequest) -> Json:
    """Return the account's own limits."""
    rows = await call.ledger.call("limits", call.path)
    names = ("axis", "cap", "window")
    return {"limits": [{name: getattr(row, name) for name in names} for row in rows]}


@operation("PUT", "limits", "Limits", required=("limits",), errors=(409,))
async def set_limits(call: AuthorizedRequest) -> Json:
    """Replace the account's limits; an empty list removes the account."""
    rows = call.fields["limits"]
    if not isinstance(rows, list):
        refuse("limits", "a list of {axis, cap, window}", rows)
    found = [_read_limit(row) for row in rows]
    twice = Counter((limit.axis, limit.window) for limit in found).most_common(1)
    if twice and twice[0][1] > 1:
        raise HTTPException(409, "limits must differ: two are on {} per {}".format(*twice[0][0]))
    CHANGED_BY.set("" if call.key is None else f"key {call.key.name}")
    await call.ledger.call("set_limits", call.path, found)
    return await limits(call)


@operation("GET", "read", "Accounts", optional=("after",), on_account=False)
async def accounts(call: AuthorizedRequest) -> Json:
    """List the key's accounts, sorted, a hundred at a time."""
    paths: Iterable[str] = await call.ledger.call("accounts")
    seen, following = _page(call, [path for path in paths if not path.startswith(ROOT)])
    return {"accounts": seen, "next": following}


@operation("GET", "read", "Devices", optional=("after",), on_account=False)
async def devices(call: AuthorizedRequest) -> Json:
    """List the key's devices, sorted, a hundred at a time: their last reports, and what is left."""
    seen, following = _page(call, await call.devices.paths())
    found = []
    for path in seen:
        report = await call.devices.read(path)
        if report:  # else it was removed meanwhile
            numbers = dict.fromkeys(AXES) | report
            found.append({"account": path, **numbers, "left": await _least_left(call, path)})
    return {"devices": found, "next": following}


async def _least_left(call: AuthorizedRequest, path: str) -> dict[str, int]:
    """Return the least that is left of each axis that is limited."""
    least: dict[str, int] = {}
    try:
        rows = await call.ledger.call("balance", path)
    except UnknownAccountError:  # it was removed
        return least
    for row in rows:
        if row.left is not None:
            least[row.axis] = min(row.left, least.get(row.axis, row.left))
    return least


def _page(call: AuthorizedRequest, paths: Iterable[str]) -> tuple[list[str], str | None]:
    """Return a page of the paths that a client may see, and the `after` of the next one."""
    after = call.fields.get("after", "")
    seen = [path for path in paths if path > after and may_see(call.key, path)]
    return seen[:PAGE], seen[PAGE - 1] if len(seen) > PAGE else None


@operation("POST", "limits", "Expired", on_account=False)
async def expire(call: AuthorizedRequest) -> Json:
    """Count expired holds as spent now; for keys of every account."""
    return {"expired": await call.ledger.call("expire")}


def url_of(name: str) -> str:
    """Return the first part of an operation's URL."""
    return "/v1/" + _NOUNS.get(name, name)


def urls_of(name: str, operation: Operation, path: str) -> list[str]:
    """Return an operation's URLs, with this for an account's path."""
    with_path = [url_of(name) + path] if operation.on_account else []
    return with_path + [url_of(name)] * (operation.also_on_all or not operation.on_account)


def show_hold(hold: Hold, known_as: str) -> Json:
    """Return a hold as JSON, with the id that the client knows."""
    shown = {name: getattr(hold, name) for name in HOLD}
    shown["id"] = known_as
    if shown["state"] == HELD:
        shown["actual"] = None  # another thread may have settled it after `state` was read
    return shown


def show_balance(row: Balance, whole: bool) -> Json:
    """Return a balance as JSON; unless `whole`, with what is left shown as the limit."""
    return balance_row(row if whole else left_only(row))


def left_only(row: Balance) -> Balance:
    """Return a balance that shows what is left as if that were the limit."""
    names = (row.account, row.axis, row.window, row.left)
    return Balance(*names, 0, 0, row.begins_at, row.resets_at)


def _key(call: AuthorizedRequest) -> str:
    """Return the request's idempotency key, or a new one if there is none."""
    key, header = call.fields.get("key"), call.idempotency_key
    if key is not None and header is not None and key != header:
        text = "key and the header Idempotency-Key must be the same if both are given"
        raise HTTPException(409, text)
    if key is None and header is None:
        return "made-" + secrets.token_hex(16)
    return check_key(header if key is None else key)


async def _record(call: AuthorizedRequest, operation: str, *more: Any) -> Json:
    """Reserve or charge amounts, once for each idempotency key."""
    key = _key(call)
    try:
        arguments = (call.path, call.fields["amounts"], _key_of_account(call, key), *more)
        return show_hold(await call.ledger.call(operation, *arguments), key)
    except KeyReusedError as error:
        raise KeyReusedError(call.path, key) from error


async def _settle(
    call: AuthorizedRequest, operation: str, *more: Any, known_as: str | None = None
) -> Json:
    """Settle, extend or look up a hold; `known_as` is the key of another one that is taken."""
    given = call.fields["id"]
    check_key(given[1:] if isinstance(given, str) and given[:1] == "#" else given)

    async def settle(name: str) -> Json:
        named = (call.path, name) if operation == "hold" else (Hold(call.path, name),)
        found = await call.ledger.call(operation, *named, *more)
        return show_hold(found, given if known_as is None else known_as)

    name = _key_of_account(call, given)
    try:
        return await settle(name)
    except HoldSettledError as error:
        raise HoldSettledError(given, error.state) from error
    except UnknownHoldError:
        if name == given:
            raise
    return await settle(given)  # it may be of a program that uses the engine itself


def _key_of_account(call: AuthorizedRequest, key: str) -> str:
    """Return the key by which the ledger knows a client's key.

    In a ledger, keys are of one root. A service's client must not learn from a refusal that a
    sibling uses a key, so there its account is a part of the key.
    """
    if call.key is None or key[0] == "#":
        return key
    account = hashlib.sha256(call.path.encode()).hexdigest()[:16]
    if len(key) >= MAX_KEY - len(account):
        key = hashlib.sha256(key.encode()).hexdigest()
    return f"{account}.{key}"


def _read_limit(row: Any) -> Limit:
    if not isinstance(row, dict) or not {"axis", "cap"} <= set(row) <= {"axis", "cap", "window"}:
        refuse("a limit", 'like {"axis": "tokens", "cap": 1000, "window": "day"}', row)
    return Limit(row["axis"], row["cap"], row.get("window", "run"))

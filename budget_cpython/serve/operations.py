"""The operations over HTTP: each with its method, right, fields and answer."""

import hashlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Struct
from starlette.exceptions import HTTPException

from budget_core.ledger.bucket import HELD
from budget_core.ledger.checks import MAX_KEY, check_amounts, check_key
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import TTL, Balance, Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.limit_changes import CHANGED_BY
from budget_cpython.ledger.operations import OPERATIONS, Operation
from budget_cpython.ops.json_rows import balance_row
from budget_cpython.serve.messages import (
    AccountsReply,
    AfterQuery,
    BalanceRow,
    BalancesReply,
    ChargeRequest,
    CommitRequest,
    DeviceRow,
    DevicesReply,
    ExpiredReply,
    ExtendRequest,
    HoldReply,
    HoldRequest,
    LimitRow,
    LimitsReply,
    LimitsRequest,
    NoFields,
    RenewRequest,
    ReserveRequest,
)
from budget_cpython.serve.reading import check_id
from budget_cpython.web.devices import AXES, ROOT, DeviceReports
from budget_cpython.web.error_responses import left_only, may_see
from budget_cpython.web.keys import Key
from budget_cpython.web.served_ledger import ServedLedger

PAGE = 100  # of the longest paths, within what a small client reads


class AuthorizedRequest(Struct):
    """An authorized request: `path` is valid, `key` may be `None`."""

    ledger: ServedLedger
    key: Key | None
    path: str
    devices: DeviceReports
    idempotency_key: str | None = None


Handler = Callable[[AuthorizedRequest, Any], Awaitable[Struct]]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, kw_only=True)
class ServedOperation(Operation):
    """An operation over HTTP: its handler, and the types that this takes and returns."""

    handler: Handler
    summary: str
    request: type[Struct]
    answer: type[Struct]

    def urls(self, path: str) -> list[str]:
        """Return its URLs, with this for an account's path."""
        start = "/v1/" + self.noun
        with_path = [start + path] if self.on_account else []
        return with_path if self.on_account and not self.also_on_all else [*with_path, start]


SERVED: dict[str, ServedOperation] = {}  # by the names of their handlers


def serves(name: str) -> Callable[[H], H]:
    """Add the handler of an operation to `SERVED`, with its docstring as the summary."""

    def add(handler: H) -> H:
        summary = " ".join((handler.__doc__ or "").split()).rstrip(".")
        types = handler.__annotations__
        given = {"request": types["asked"], "answer": types["return"], "summary": summary}
        row = vars(OPERATIONS[name])
        SERVED[handler.__name__] = ServedOperation(**row, **given, handler=handler)
        return handler

    return add


@serves("reserve")
async def reserve(call: AuthorizedRequest, asked: ReserveRequest) -> HoldReply:
    """Hold amounts before a call, on every limit of the account and of its parents, or refuse."""
    ttl = TTL if asked.ttl is None else asked.ttl
    more = (ttl,) if asked.wait is None else (ttl, asked.wait)
    return await _record(call, "reserve", asked, *more)


@serves("charge")
async def charge(call: AuthorizedRequest, asked: ChargeRequest) -> HoldReply:
    """Record amounts as spent, also above the limits."""
    return await _record(call, "charge", asked)


@serves("commit")
async def commit(call: AuthorizedRequest, asked: CommitRequest) -> HoldReply:
    """Settle a hold with the amounts that its call used."""
    return await _settle(call, "commit", asked.id, _used(asked))


@serves("renew")
async def renew(call: AuthorizedRequest, asked: RenewRequest) -> HoldReply:
    """Settle a hold and take the next one in one step, or refuse and change nothing."""
    key = _key(call, asked.key)
    named = _key_of_account(call, key)
    more = (_used(asked), asked.amounts, named, TTL if asked.ttl is None else asked.ttl)
    try:
        return await _settle(call, "renew", asked.id, *more, known_as=key)
    except KeyReusedError as error:
        raise KeyReusedError(call.path, key) from error


@serves("release")
async def release(call: AuthorizedRequest, asked: HoldRequest) -> HoldReply:
    """Give back a hold whose call was not made."""
    return await _settle(call, "release", asked.id)


@serves("extend")
async def extend(call: AuthorizedRequest, asked: ExtendRequest) -> HoldReply:
    """Keep a hold live for at least `ttl` seconds from now."""
    return await _settle(call, "extend", asked.id, TTL if asked.ttl is None else asked.ttl)


@serves("hold")
async def hold(call: AuthorizedRequest, asked: HoldRequest) -> HoldReply:
    """Look up a hold."""
    return await _settle(call, "hold", asked.id)


@serves("balance")
async def balance(call: AuthorizedRequest, asked: NoFields) -> BalancesReply:
    """Return the balance of each limit of the account and of its parents.

    Of accounts above the key's own, only what is left is shown.
    """
    rows = await call.ledger.call("balance", call.path)
    return BalancesReply([show_balance(row, may_see(call.key, row.account)) for row in rows])


@serves("history")
async def history(call: AuthorizedRequest, asked: NoFields) -> BalancesReply:
    """Return the counts of the account's own limits in past windows."""
    rows = await call.ledger.call("history", call.path)
    return BalancesReply([show_balance(row, True) for row in rows])


@serves("limits")
async def limits(call: AuthorizedRequest, asked: NoFields) -> LimitsReply:
    """Return the account's own limits."""
    rows = await call.ledger.call("limits", call.path)
    return LimitsReply([LimitRow(row.axis, row.cap, row.window) for row in rows])


@serves("set_limits")
async def set_limits(call: AuthorizedRequest, asked: LimitsRequest) -> LimitsReply:
    """Replace the account's limits; an empty list removes the account."""
    found = [Limit(row.axis, row.cap, row.window) for row in asked.limits]
    twice = Counter((limit.axis, limit.window) for limit in found).most_common(1)
    if twice and twice[0][1] > 1:
        raise HTTPException(409, "limits must differ: two are on {} per {}".format(*twice[0][0]))
    CHANGED_BY.set("" if call.key is None else f"key {call.key.name}")
    await call.ledger.call("set_limits", call.path, found)
    return await limits(call, NoFields())


@serves("accounts")
async def accounts(call: AuthorizedRequest, asked: AfterQuery) -> AccountsReply:
    """List the key's accounts, sorted, a hundred at a time."""
    paths: Iterable[str] = await call.ledger.call("accounts")
    known = [path for path in paths if not path.startswith(ROOT)]
    return AccountsReply(*_page(call, known, asked.after))


@serves("devices")
async def devices(call: AuthorizedRequest, asked: AfterQuery) -> DevicesReply:
    """List the key's devices, sorted, a hundred at a time: their last reports, and what is left."""
    seen, following = _page(call, await call.devices.paths(), asked.after)
    found = []
    for path in seen:
        report = await call.devices.read(path)
        if report:  # else it was removed meanwhile
            numbers: dict[str, Any] = dict.fromkeys(AXES) | report
            found.append(DeviceRow(path, **numbers, left=await _least_left(call, path)))
    return DevicesReply(found, following)


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


def _page(
    call: AuthorizedRequest, paths: Iterable[str], after: str
) -> tuple[list[str], str | None]:
    """Return a page of the paths that a client may see, and the `after` of the next one."""
    seen = [path for path in paths if path > after and may_see(call.key, path)]
    return seen[:PAGE], seen[PAGE - 1] if len(seen) > PAGE else None


@serves("expire")
async def expire(call: AuthorizedRequest, asked: NoFields) -> ExpiredReply:
    """Count expired holds as spent now; for keys of every account."""
    return ExpiredReply(await call.ledger.call("expire"))


def show_hold(hold: Hold, known_as: str) -> HoldReply:
    """Return a hold with the id that the client knows."""
    state = hold.state  # another thread may settle it after this was read
    actual = None if state == HELD else hold.actual
    return HoldReply(hold.path, known_as, hold.amounts, state, hold.expires_at, actual)


def show_balance(row: Balance, whole: bool) -> BalanceRow:
    """Return a balance as it is answered; unless `whole`, with what is left as the limit."""
    return BalanceRow(**balance_row(row if whole else left_only(row)))


def _used(asked: CommitRequest | RenewRequest) -> dict[str, Any] | None:
    return None if asked.actual is None else check_amounts(asked.actual)


def _key(call: AuthorizedRequest, key: str | None) -> str:
    """Return the request's idempotency key, or a new one if there is none."""
    header = call.idempotency_key
    if key is not None and header is not None and key != header:
        text = "key and the header Idempotency-Key must be the same if both are given"
        raise HTTPException(409, text)
    if key is None and header is None:
        return "made-" + secrets.token_hex(16)
    return check_key(header if key is None else key)


async def _record(
    call: AuthorizedRequest, operation: str, asked: ReserveRequest | ChargeRequest, *more: Any
) -> HoldReply:
    """Reserve or charge amounts, once for each idempotency key."""
    key = _key(call, asked.key)
    try:
        arguments = (call.path, asked.amounts, _key_of_account(call, key), *more)
        return show_hold(await call.ledger.call(operation, *arguments), key)
    except KeyReusedError as error:
        raise KeyReusedError(call.path, key) from error


async def _settle(
    call: AuthorizedRequest, operation: str, given: str, *more: Any, known_as: str | None = None
) -> HoldReply:
    """Settle, extend or look up a hold; `known_as` is the key of another one that is taken."""
    check_id(given)

    async def settle(name: str) -> HoldReply:
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

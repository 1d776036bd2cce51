"""The client of a ledger behind `microbudget serve`, for a chip or a server."""

import json
import os
from binascii import hexlify

from budget_core.chat.http import HttpEndpoint, HttpExchange
from budget_core.checks import check_count, check_text
from budget_core.errors import ProviderError
from budget_core.ledger.checks import LETTERS, MOST, check_amounts, check_key, check_path
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import TTL, Balance, Hold, check_hold, check_ttl, time_to_wait
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from budget_core.ledger.limit import Limit

    T = TypeVar("T")

DEVICE = "Microbudget-Device: "
_MAX_MESSAGE = 300
_TEXTS = ("account", "axis", "id", "key", "path", "scope", "state", "window")
_OPTIONAL = ("asked", "limit", "resets_at")  # `None` is unlimited, or never
_BALANCE = "account", "axis", "window", "limit", "spent", "held", "begins_at", "resets_at"
_EXCEEDED = "scope", "axis", "window", "asked", "limit", "spent", "held", "resets_at"
_ERRORS: "dict[str, Any]" = {
    "unknown_account": (UnknownAccountError, ("path",)),
    "unknown_hold": (UnknownHoldError, ("path", "id")),
    "hold_settled": (HoldSettledError, ("id", "state")),
    "key_reused": (KeyReusedError, ("path", "key")),
}


class HttpLedger:
    """A ledger at a URL, for asyncio; `budget_core.Ledger` says what each method does.

    `key` is what `microbudget serve key add` printed; it is in no message, log or repr. `timeout_s`
    bounds every wait for the network, up to a day; `max_response_bytes` every answer, its head
    included. `tls` is a context for https, by default `tls_context()`.

    Every method may raise `LedgerUnavailableError`, and a `LedgerError` if the service refuses the
    key or the request. A request whose answer was lost is sent once more and counts once: a
    reservation or a charge without a key gets one of 128 random bits.
    """

    WAITS_ELSEWHERE = True  # for what others hold: the service has the queue

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_s: float = 10,
        max_response_bytes: int = 65_536,
        tls: "Any" = None,
    ) -> None:
        self.url = check_text("url", url)
        self._endpoint = HttpEndpoint(url, key, timeout_s, max_response_bytes, tls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def report(self, spent: int, cap: int | None, resets_at: int = 0) -> None:
        """Have every further request report what a device's own day has used, in tokens.

        The service notes it for the account of the request. `resets_at` is when the day ends, in
        Unix seconds, 0 if that is not known. Numbers above 2**53 - 1 are reported as that.
        """
        fields = {"spent": min(spent, MOST), "resets_at": min(resets_at, MOST)}
        if cap is not None:
            fields["cap"] = min(cap, MOST)
        headers = self._endpoint.headers
        if headers[-1].startswith(DEVICE):
            headers.pop()
        headers.append(DEVICE + json.dumps(fields))

    async def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Replace an account's limits by these; an empty list removes the account."""
        from budget_core.ledger.limit import check_limits  # few devices set or read limits

        rows = [
            {"axis": limit.axis, "cap": limit.cap, "window": limit.window}
            for limit in check_limits(limits)
        ]
        await self._ask(_limits, "PUT", "limits/" + check_path(path), {"limits": rows})

    async def limits(self, path: str) -> "list[Limit]":
        """Return an account's own limits."""
        return await self._ask(_limits, "GET", "limits/" + check_path(path))

    async def accounts(self) -> "list[str]":
        """Return the paths of all accounts that the key is for, sorted."""
        found: list[str] = []
        after = ""
        while True:
            paths, more = await self._ask(_accounts, "GET", "accounts?after=" + _quoted(after))
            found += paths
            if not more or not paths or paths[-1] <= after:
                return found
            after = paths[-1]

    async def reserve(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> "Hold":
        """Hold amounts on every limit of the path and of the accounts above it, or raise.

        The service keeps the order of those who wait. It may wait for less than is asked, and is
        then asked again. A wait that is cancelled is undone before the cancellation goes on.
        """
        check_ttl(ttl)
        asked, key = check_amounts(amounts, True), _key(key)
        if wait:
            from budget_core.ledger.outbox import reserve_or_undo

            return await reserve_or_undo(self._ask_in_turn, path, asked, key, ttl, wait)
        fields = {"amounts": asked, "key": key, "ttl": ttl}
        return await self._ask_hold("reserve", path, fields)

    async def _ask_in_turn(self, operation: str, *arguments: "Any") -> "Any":
        """Do an operation; repeat a `reserve` that waits until its wait is over."""
        if len(arguments) < 5:
            return await getattr(self, operation)(*arguments)
        path, asked, key, ttl, wait = arguments
        fields = {"amounts": asked, "key": key, "ttl": ttl}
        left_ms = time_to_wait(self, wait)
        while left_ms:
            fields["wait"] = left_ms / 1000
            try:
                return await self._ask_hold("reserve", path, fields)
            except BudgetExceededError as error:
                left_ms -= error.waited_ms
                if left_ms <= 0 or not (error.is_held and error.waited_ms):
                    raise
        return await self._ask_hold("reserve", path, fields)

    async def charge(self, path: str, amounts: "dict[str, Any]", key: str | None = None) -> "Hold":
        """Record amounts as spent, without asking."""
        fields = {"amounts": check_amounts(amounts), "key": _key(key)}
        return await self._ask_hold("charge", path, fields)

    async def commit(self, hold: "Hold", actual: "dict[str, Any] | None" = None) -> "Hold":
        """Settle a hold with what the call used."""
        used = None if actual is None else check_amounts(actual)
        return await self._ask_hold(
            "commit", check_hold(hold).path, {"id": hold.id, "actual": used}
        )

    async def renew(
        self,
        hold: "Hold",
        actual: "dict[str, Any] | None",
        amounts: "Mapping[str, Any]",
        key: str | None = None,
        ttl: float = TTL,
    ) -> "Hold":
        """Commit a hold and take the next one on its path, in one step, or raise."""
        check_ttl(ttl)
        used = None if actual is None else check_amounts(actual)
        fields = {"amounts": check_amounts(amounts, True), "key": _key(key), "ttl": ttl}
        fields.update(id=check_hold(hold).id, actual=used)
        return await self._ask_hold("renew", hold.path, fields)

    async def release(self, hold: "Hold") -> "Hold":
        """Give back a hold whose call was never made."""
        return await self._ask_hold("release", check_hold(hold).path, {"id": hold.id})

    async def extend(self, hold: "Hold", ttl: float = TTL) -> "Hold":
        """Keep a hold live for at least `ttl` seconds from now."""
        check_ttl(ttl)
        return await self._ask_hold("extend", check_hold(hold).path, {"id": hold.id, "ttl": ttl})

    async def hold(self, path: str, id: str) -> "Hold":
        """Return a hold by its path and `id`."""
        target = "hold/" + check_path(path) + "?id=" + _quoted(check_text("id", id))
        return await self._ask(_hold, "GET", target)

    async def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""
        return await self._ask(_expired, "POST", "expire")

    async def balance(self, path: str) -> "list[Balance]":
        """Return the balance of each limit of the path and of the accounts above it.

        Of accounts above the key's own only what is left is shown, as the limit.
        """
        return await self._ask(_balances, "GET", "balance/" + check_path(path))

    async def history(self, path: str) -> "list[Balance]":
        """Return the balances of an account's own limits in past windows."""
        return await self._ask(_balances, "GET", "history/" + check_path(path))

    async def close(self) -> None:
        """Do nothing: a connection ends with its request."""

    async def _ask_hold(self, operation: str, path: str, fields: "dict[str, Any]") -> "Hold":
        return await self._ask(_hold, "POST", operation + "/" + check_path(path), fields)

    async def _ask(
        self,
        read: "Callable[[Any], T]",
        method: str,
        target: str,
        fields: "dict[str, Any] | None" = None,
        once: bool = False,
    ) -> "T":
        """Return what `read` finds in an answer, or raise the error that it reports.

        `read` raises if another server answered. A request whose answer was lost is repeated unless
        it may be made only `once`.
        """
        path = self._endpoint.path + "/v1/" + target
        body = b"" if fields is None else json.dumps(fields).encode()
        patience_s = 0 if fields is None else fields.get("wait", 0)
        in_doubt = False
        while True:
            try:
                status, said = await self._answer_to(method, path, body, patience_s)
                if status != 200:
                    raise _refusal(status, said if isinstance(said, dict) else {})
                break
            except LedgerUnavailableError as error:
                if in_doubt:
                    error.applied = None
                if in_doubt or once or error.applied is not None:
                    raise
                in_doubt = True
                from budget_core.log import log  # loaded for the first answer that is lost

                log("debug", "an answer of a ledger was lost: its request is sent again")
        try:
            return read(said)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = "the ledger: what answered at its URL is something else"
            raise LedgerUnavailableError(text, error, None)

    async def _answer_to(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> "tuple[int, Any]":
        """Make a request, and return the status and what its answer says, `None` if not JSON."""
        status, data = await self._exchange(method, path, body, patience_s)
        try:
            return status, json.loads(data.decode())
        except (ValueError, RuntimeError):  # a RuntimeError: nested too deeply
            return status, None

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> "tuple[int, bytes]":
        """Make a request, and return the status and the body of its answer."""
        exchange = HttpExchange(self._endpoint)
        exchange.patience_s = patience_s
        try:
            await exchange.send(method, path, lambda: (body,))
            data = await exchange.read_all()
            if not exchange.framed:
                raise ProviderError(exchange.status, "the answer may have broken off")
            return exchange.status, data
        except ProviderError as error:
            sent = None if error.sent else False
            unavailable = LedgerUnavailableError("the ledger: " + error.message, error, sent)
        finally:
            await exchange.close()
        raise unavailable


def _key(key: str | None) -> str:
    return hexlify(os.urandom(16)).decode() if key is None else check_key(key)


def _quoted(text: str) -> str:
    characters = map(chr, text.encode())
    return "".join([one if one in LETTERS else f"%{ord(one):02X}" for one in characters])


def _limits(said: "Any") -> "list[Limit]":
    from budget_core.ledger.limit import Limit

    return [Limit(row["axis"], row["cap"], row["window"]) for row in said["limits"]]


def _accounts(said: "Any") -> "tuple[list[str], bool]":
    return [check_path(path) for path in said["accounts"]], said.get("next") is not None


def _expired(said: "Any") -> int:
    return check_count("expired", said["expired"])


def _hold(said: "Any") -> Hold:
    state, expires, actual = said["state"], said["expires_at"], said["actual"]
    if state not in (Hold.HELD, Hold.COMMITTED, Hold.RELEASED, Hold.EXPIRED):
        raise ValueError
    return Hold(
        check_path(said["path"]),
        check_text("id", said["id"]),
        check_amounts(said["amounts"]),
        state,
        None if expires is None else check_count("expires_at", expires) * 1000,
        None if actual is None else check_amounts(actual),
    )


def _balances(said: "Any") -> "list[Balance]":
    return [Balance(*_fields(row, *_BALANCE)) for row in said["balances"]]


def _fields(said: "Any", *names: str) -> "list[Any]":
    """Return fields of an answer: texts, and whole numbers of any size."""
    found = [said[name] for name in names]
    for name, value in zip(names, found):
        if name in _TEXTS:
            check_text(name, value)
            continue
        wrong = isinstance(value, bool) or not isinstance(value, int) or value < 0
        if wrong and not (value is None and name in _OPTIONAL):
            raise ValueError
    return found


def _refusal(status: int, said: "dict[str, Any]") -> Exception:
    """Return the error that the service reports, as the ledger behind it raised it."""
    word, message = said.get("error"), said.get("message")
    message = message[:_MAX_MESSAGE] if isinstance(message, str) else "it said no more"
    try:
        if word == "budget_exceeded":
            waited_ms = check_count("waited_ms", said.get("waited_ms", 0))
            return BudgetExceededError(*(_fields(said, *_EXCEEDED) + [WALL(), waited_ms]))
        if word in _ERRORS:
            error, names = _ERRORS[word]
            found: Exception = error(*_fields(said, *names))
            return found
    except (KeyError, TypeError, ValueError):
        pass  # as anything that is not from a ledger
    if word == "invalid":
        return ValueError(message)
    if word == "ledger_full":
        return LedgerFullError(message)
    if word == "keys_unavailable":
        return LedgerUnavailableError("the ledger: " + message)
    if word == "ledger_unavailable":
        applied = False if said.get("applied") is False else None
        return LedgerUnavailableError(message, None, applied)
    text = f"the ledger's service refused: {message} (HTTP {status})"
    if status >= 500 or status in (408, 429):
        return LedgerUnavailableError(text, None, None)
    return LedgerError(text)

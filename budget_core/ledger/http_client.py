"""Use a ledger behind `microbudget serve`, from a chip or a server."""

import json
import os
from binascii import hexlify

from budget_core.chat.http import HttpExchange, split_url, tls_context
from budget_core.errors import ProviderError, refuse
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.http_replies import (
    read_answer,
    read_balance,
    read_count,
    read_hold,
    read_limit,
    read_one,
    read_path,
    read_rows,
)
from budget_core.ledger.limit import Limit, check_amounts, check_key, check_path
from budget_core.ledger.records import TTL, check_ttl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from budget_core.ledger.records import Balance, Hold

_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


class HttpLedger:
    """A ledger at a URL, for asyncio; `budget_core.Ledger` says what each method does.

    `key` is what `microbudget serve key add` printed; it is in no message, log or repr. `timeout_s`
    bounds every wait for the network, up to a day; `max_response_bytes` every answer, its head
    included. `tls` is a context for https, by default `tls_context()`.

    Every method may raise `LedgerUnavailableError`, and a `LedgerError` if the service refuses the
    key or the request. A request whose answer was lost is sent once more and counts once: a
    reservation or a charge without a key gets one of 128 random bits.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_s: float = 10,
        max_response_bytes: int = 65_536,
        tls: "Any" = None,
    ) -> None:
        self._place = secure, _, _, path = split_url(url)
        self._root = path.rstrip("/") + "/v1/"
        if key is not None and not (key and all("!" <= char <= "~" for char in key)):
            raise ValueError("key must be visible ASCII characters, without blanks or line ends")
        if not 0 < timeout_s <= 86_400:
            refuse("timeout_s", "above 0 and at most 86,400", timeout_s)
        if max_response_bytes < 1:
            refuse("max_response_bytes", "1 or more", max_response_bytes)
        self.url = url
        self._key = key
        self._timeout_s = timeout_s
        self._max_bytes = max_response_bytes
        self._tls = tls_context() if secure and tls is None else tls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Replace an account's limits by these; an empty list removes the account."""
        rows = []
        for limit in limits if isinstance(limits, (list, tuple)) else (limits,):
            if not isinstance(limit, Limit):
                refuse("limits", "a list of Limits", limit)
            rows.append({"axis": limit.axis, "cap": limit.cap, "window": limit.window})
        answer = await self._ask("PUT", "limits/" + check_path(path), {"limits": rows})
        read_rows(answer, "limits", read_limit)  # or it was something else that answered

    async def limits(self, path: str) -> "list[Limit]":
        """Return an account's own limits."""
        answer = await self._ask("GET", "limits/" + check_path(path))
        return read_rows(answer, "limits", read_limit)

    async def accounts(self) -> "list[str]":
        """Return the paths of all accounts that the key is for, sorted."""
        found: list[str] = []
        after = ""
        while True:
            answer = await self._ask("GET", "accounts?after=" + _quoted(after))
            found += read_rows(answer, "accounts", read_path)
            if not found or found[-1] <= after or answer.get("next") is None:
                return found
            after = found[-1]

    async def reserve(
        self,
        path: str,
        amounts: "Mapping[str, int | None]",
        key: str | None = None,
        ttl: float = TTL,
    ) -> "Hold":
        """Hold amounts on every limit of the path and of the accounts above it, or raise."""
        check_ttl(ttl)
        fields = {"amounts": check_amounts(amounts, True), "key": _key(key), "ttl": ttl}
        return await self._ask_hold("reserve", path, fields)

    async def charge(self, path: str, amounts: "dict[str, int]", key: str | None = None) -> "Hold":
        """Record amounts as spent, without asking."""
        fields = {"amounts": check_amounts(amounts), "key": _key(key)}
        return await self._ask_hold("charge", path, fields)

    async def commit(self, hold: "Hold", actual: "dict[str, int] | None" = None) -> "Hold":
        """Settle a hold with what the call used."""
        used = None if actual is None else check_amounts(actual)
        return await self._ask_hold("commit", hold.path, {"id": hold.id, "actual": used})

    async def release(self, hold: "Hold") -> "Hold":
        """Give back a hold whose call was never made."""
        return await self._ask_hold("release", hold.path, {"id": hold.id})

    async def extend(self, hold: "Hold", ttl: float = TTL) -> "Hold":
        """Keep a hold live for at least `ttl` seconds from now."""
        check_ttl(ttl)
        return await self._ask_hold("extend", hold.path, {"id": hold.id, "ttl": ttl})

    async def hold(self, path: str, id: str) -> "Hold":
        """Return a hold by its path and `id`."""
        target = "hold/" + check_path(path) + "?id=" + _quoted(id)
        found: Hold = read_one(await self._ask("GET", target), read_hold)
        return found

    async def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""
        return read_count(await self._ask("POST", "expire"), "expired")

    async def balance(self, path: str) -> "list[Balance]":
        """Return what stands against each limit of the path and of the accounts above it.

        Of accounts above the key's own only what is left is shown, as the limit.
        """
        answer = await self._ask("GET", "balance/" + check_path(path))
        return read_rows(answer, "balances", read_balance)

    async def history(self, path: str) -> "list[Balance]":
        """Return what an account's own limits counted in windows that are over."""
        answer = await self._ask("GET", "history/" + check_path(path))
        return read_rows(answer, "balances", read_balance)

    async def close(self) -> None:
        """Do nothing: a connection ends with its request."""

    async def _ask_hold(self, operation: str, path: str, fields: "dict[str, Any]") -> "Hold":
        answer = await self._ask("POST", operation + "/" + check_path(path), fields)
        found: Hold = read_one(answer, read_hold)
        return found

    async def _ask(
        self, method: str, target: str, fields: "dict[str, Any] | None" = None
    ) -> "dict[str, Any]":
        body = b"" if fields is None else json.dumps(fields).encode()
        headers = [] if fields is None else ["Content-Type: application/json"]
        if self._key is not None:
            headers.append("Authorization: Bearer " + self._key)
        in_doubt = False
        while True:
            try:
                return read_answer(
                    *await self._exchange(method, self._root + target, headers, body)
                )
            except LedgerUnavailableError as error:
                if in_doubt:
                    error.applied = None
                if in_doubt or error.applied is not None:
                    raise
                in_doubt = True

    async def _exchange(
        self, method: str, path: str, headers: "list[str]", body: bytes
    ) -> "tuple[int, bytes]":
        """Make a request, and return the status and the body of its answer."""
        exchange = HttpExchange(self._timeout_s, self._max_bytes)
        place = self._place[:3] + (path,)
        try:
            await exchange.send(method, place, headers, body, self._tls)
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
    return "".join([chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in text.encode()])

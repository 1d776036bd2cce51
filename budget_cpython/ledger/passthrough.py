"""Pass a ledger's operations on to another one, asked in a way of one's own."""
# ruff: noqa: D102 - LedgerProtocol says what each method does
# mypy: disable-error-code="no-any-return"

from collections.abc import Mapping, Sequence
from typing import Any

from budget_core.ledger._types import AsyncLedgerProtocol, LedgerProtocol
from budget_core.ledger.limit import Limit
from budget_core.ledger.records import TTL, Balance, Hold, wake
from budget_core.ledger.waiting import reserve_blocking
from budget_cpython.ledger.waiting import reserve_waiting

SETTLING = ("commit", "release", "charge", "expire", "set_limits")  # operations


class Passthrough(LedgerProtocol):
    """A `LedgerProtocol` all of whose operations are done by `_do`.

    `WAITS_INSIDE` is whether what is asked waits for holds by itself.
    """

    WAITS_INSIDE = False

    def _ask(self, operation: str, *arguments: Any) -> Any:
        found = self._do(operation, *arguments)
        if operation in SETTLING:
            wake(self, *arguments[:1])
        return found

    def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        self._ask("set_limits", path, limits)

    def limits(self, path: str) -> list[Limit]:
        return self._ask("limits", path)

    def accounts(self) -> list[str]:
        return self._ask("accounts")

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait and self.WAITS_INSIDE:
            return self._ask("reserve", path, amounts, key, ttl, wait)
        if wait:
            return reserve_blocking(self, path, amounts, key, ttl, wait)
        return self._ask("reserve", path, amounts, key, ttl)

    def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        return self._ask("charge", path, amounts, key)

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        return self._ask("commit", hold, actual)

    def release(self, hold: Hold) -> Hold:
        return self._ask("release", hold)

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        return self._ask("extend", hold, ttl)

    def hold(self, path: str, id: str) -> Hold:
        return self._ask("hold", path, id)

    def expire(self) -> int:
        return self._ask("expire")

    def balance(self, path: str) -> list[Balance]:
        return self._ask("balance", path)

    def history(self, path: str) -> list[Balance]:
        return self._ask("history", path)

    def close(self) -> None:
        self._ask("close")


class AsyncPassthrough(AsyncLedgerProtocol):
    """An `AsyncLedgerProtocol` all of whose operations are done by `_do`."""

    async def _ask(self, operation: str, *arguments: Any) -> Any:
        found = await self._do(operation, *arguments)
        if operation in SETTLING:
            wake(self, *arguments[:1])
        return found

    async def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        await self._ask("set_limits", path, limits)

    async def limits(self, path: str) -> list[Limit]:
        return await self._ask("limits", path)

    async def accounts(self) -> list[str]:
        return await self._ask("accounts")

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait:
            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        return await self._ask("reserve", path, amounts, key, ttl)

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        return await self._ask("charge", path, amounts, key)

    async def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        return await self._ask("commit", hold, actual)

    async def release(self, hold: Hold) -> Hold:
        return await self._ask("release", hold)

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        return await self._ask("extend", hold, ttl)

    async def hold(self, path: str, id: str) -> Hold:
        return await self._ask("hold", path, id)

    async def expire(self) -> int:
        return await self._ask("expire")

    async def balance(self, path: str) -> list[Balance]:
        return await self._ask("balance", path)

    async def history(self, path: str) -> list[Balance]:
        return await self._ask("history", path)

    async def close(self) -> None:
        await self._ask("close")

"""Pass operations on to a ledger: from threads, from asyncio, or from threads to an asyncio one."""
# ruff: noqa: D102 - LedgerProtocol and Journal say what each method does
# mypy: disable-error-code="no-any-return"

from collections.abc import Mapping, Sequence
from typing import Any

from budget_core.ledger._types import AsyncLedgerProtocol
from budget_core.ledger.limit import Limit
from budget_core.ledger.records import TTL, Balance, Hold, wake
from budget_cpython.ledger.journal import (
    AsyncJournaledLedger,
    HourOfUsage,
    JournaledLedger,
    LedgerEvent,
    OpenHold,
)
from budget_cpython.ledger.usage_log import flush_usage, flush_usage_awaited


class Passthrough(JournaledLedger):
    """A `JournaledLedger` all of whose operations are done by `_do`.

    `WAITS_INSIDE` is whether what is asked waits for holds by itself.
    """

    WAITS_INSIDE = False

    def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    def _settle(self, operation: str, *arguments: Any) -> Any:
        """Do an operation after which calls that wait may be granted."""
        found = self._do(operation, *arguments)
        wake(self, *arguments[:1])
        return found

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        self._settle("set_limits", path, limits)

    def limits(self, path: str) -> list[Limit]:
        return self._do("limits", path)

    def accounts(self) -> list[str]:
        return self._do("accounts")

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait and self.WAITS_INSIDE:
            return self._do("reserve", path, amounts, key, ttl, wait)
        if wait:
            from budget_core.ledger.waiting import reserve_blocking  # most programs never wait

            return reserve_blocking(self, path, amounts, key, ttl, wait)
        return self._do("reserve", path, amounts, key, ttl)

    def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        return self._settle("charge", path, amounts, key)

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        return self._settle("commit", hold, actual)

    def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        return self._settle("renew", hold, actual, amounts, key, ttl)

    def release(self, hold: Hold) -> Hold:
        return self._settle("release", hold)

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        return self._do("extend", hold, ttl)

    def hold(self, path: str, id: str) -> Hold:
        return self._do("hold", path, id)

    def expire(self) -> int:
        return self._settle("expire")

    def balance(self, path: str) -> list[Balance]:
        return self._do("balance", path)

    def history(self, path: str) -> list[Balance]:
        return self._do("history", path)

    def balances(self, path: str = "") -> list[Balance]:
        return self._do("balances", path)

    def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        return self._do("open_holds", path, most)

    def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        return self._do("note", events)

    def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        return self._do("events", path, kinds, after, most)

    def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        self._do("add_usage", rows)

    def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        return self._do("usage", path, since)

    def close(self) -> None:
        flush_usage(self)
        self._do("close")


class BlockingLedger(Passthrough):
    """A ledger for threads: each method runs that of a ledger for asyncio to its end.

    So an operation is written once, as a coroutine. Below a ledger for threads everything that it
    awaits has its result at once, and no event loop is needed.
    """

    def __init__(self, ledger: AsyncLedgerProtocol) -> None:
        self._ledger = ledger

    def _do(self, operation: str, *arguments: Any) -> Any:
        from budget_core.ledger.outbox import finish  # with asyncio: loaded for those who wait

        return finish(getattr(self._ledger, operation)(*arguments))


class AsyncPassthrough(AsyncJournaledLedger):
    """An `AsyncJournaledLedger` all of whose operations are done by `_do`."""

    async def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    async def _settle(self, operation: str, *arguments: Any) -> Any:
        """Do an operation after which calls that wait may be granted."""
        found = await self._do(operation, *arguments)
        wake(self, *arguments[:1])
        return found

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        await self._settle("set_limits", path, limits)

    async def limits(self, path: str) -> list[Limit]:
        return await self._do("limits", path)

    async def accounts(self) -> list[str]:
        return await self._do("accounts")

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait:
            from budget_core.ledger.waiting import reserve_waiting  # most programs never wait

            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        return await self._do("reserve", path, amounts, key, ttl)

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        return await self._settle("charge", path, amounts, key)

    async def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        return await self._settle("commit", hold, actual)

    async def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        return await self._settle("renew", hold, actual, amounts, key, ttl)

    async def release(self, hold: Hold) -> Hold:
        return await self._settle("release", hold)

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        return await self._do("extend", hold, ttl)

    async def hold(self, path: str, id: str) -> Hold:
        return await self._do("hold", path, id)

    async def expire(self) -> int:
        return await self._settle("expire")

    async def balance(self, path: str) -> list[Balance]:
        return await self._do("balance", path)

    async def history(self, path: str) -> list[Balance]:
        return await self._do("history", path)

    async def balances(self, path: str = "") -> list[Balance]:
        return await self._do("balances", path)

    async def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        return await self._do("open_holds", path, most)

    async def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        return await self._do("note", events)

    async def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        return await self._do("events", path, kinds, after, most)

    async def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        await self._do("add_usage", rows)

    async def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        return await self._do("usage", path, since)

    async def close(self) -> None:
        await flush_usage_awaited(self)
        await self._do("close")

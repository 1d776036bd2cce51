"""Use a ledger that blocks from asyncio."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from budget_core.ledger.limit import Limit
from budget_core.ledger.records import TTL, Balance, Hold

T = TypeVar("T")


class ThreadedLedger:
    """A ledger whose methods are awaited, and run in asyncio's threads: others go on meanwhile.

    Cancelling does not stop an operation that has begun.
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        await self._run(self._ledger.set_limits, path, limits)

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return await self._run(self._ledger.limits, path)

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return await self._run(self._ledger.accounts)

    async def reserve(
        self, path: str, amounts: dict[str, int], key: str | None = None, ttl: float = TTL
    ) -> Hold:
        """Hold amounts on every limit of the path and of all above it, or raise."""
        return await self._run(self._ledger.reserve, path, amounts, key, ttl)

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent without asking."""
        return await self._run(self._ledger.charge, path, amounts, key)

    async def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Record what a call used in the place of its hold."""
        return await self._run(self._ledger.commit, hold, actual)

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return await self._run(self._ledger.release, hold)

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        return await self._run(self._ledger.extend, hold, ttl)

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return await self._run(self._ledger.hold, path, id)

    async def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were."""
        return await self._run(self._ledger.expire)

    async def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        return await self._run(self._ledger.balance, path)

    async def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return await self._run(self._ledger.history, path)

    async def close(self) -> None:
        """Close the ledger, if it can be."""
        close = getattr(self._ledger, "close", None)
        if close is not None:
            await self._run(close)

    async def _run(self, method: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.to_thread(method, *arguments)

"""Run a ledger written for asyncio in threads.

An operation is written once, as a coroutine. Below a ledger for threads everything it awaits has
its result at once (`maybe_await`), so it runs to its end without an event loop (`finish`).
"""

from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from budget_core.ledger.limit import Limit
from budget_core.ledger.records import TTL, Balance, Hold
from budget_cpython.ledger.remote import AsyncRemoteLedger, Backend

T = TypeVar("T")


async def maybe_await(value: Any) -> Any:
    """Return what a client of either kind gave: the value, or what awaiting it gives."""
    return await value if hasattr(value, "__await__") else value


def finish(coroutine: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Return the result of a coroutine that never has to wait."""
    steps: Any = coroutine.__await__()
    try:
        steps.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    steps.close()
    raise RuntimeError("a ledger that blocks awaited something")


class BlockingLedger:
    """A ledger for threads: each method runs the asyncio ledger's to its end."""

    def __init__(self, ledger: AsyncRemoteLedger) -> None:
        self._ledger = ledger

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Replace an account's limits by these; an empty list removes the account."""
        finish(self._ledger.set_limits(path, limits))

    def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return finish(self._ledger.limits(path))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return finish(self._ledger.accounts())

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, int | None],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Hold amounts on every limit of the path and of the accounts above it, or raise."""
        return finish(self._ledger.reserve(path, amounts, key, ttl))

    def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent, without asking."""
        return finish(self._ledger.charge(path, amounts, key))

    def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Settle a hold with what the call used."""
        return finish(self._ledger.commit(hold, actual))

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return finish(self._ledger.release(hold))

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now."""
        return finish(self._ledger.extend(hold, ttl))

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return finish(self._ledger.hold(path, id))

    def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""
        return finish(self._ledger.expire())

    def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of the accounts above it."""
        return finish(self._ledger.balance(path))

    def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return finish(self._ledger.history(path))

    def close(self) -> None:
        """Close the connections."""
        finish(self._ledger.close())


class RemoteLedger(BlockingLedger):
    """A ledger behind a backend, for threads; `AsyncRemoteLedger` says what the options are."""

    def __init__(self, backend: Backend, **options: Any) -> None:
        super().__init__(AsyncRemoteLedger(backend, **options))

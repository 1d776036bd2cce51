"""Pass operations on to a ledger: from threads, from asyncio, or from threads to an asyncio one."""
# ruff: noqa: D102 - LedgerProtocol says what reserve and close do

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, TypeVar, cast

from budget_core.ledger._types import AsyncLedgerProtocol
from budget_core.ledger.hold import TTL, Hold, wake
from budget_cpython.ledger.journal import AsyncJournaledLedger, JournaledLedger
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.process import PROCESS
from budget_cpython.ledger.usage_log import flush_usage, flush_usage_awaited

F = TypeVar("F", bound=Callable[..., Any])


def passed_on(method: F) -> F:
    """Return a ledger's method of this signature, which `_do` or `_settle` does."""
    name, likeness = method.__name__, cast(Any, method)
    ask_name = "_settle" if OPERATIONS[name].settles else "_do"
    count, defaults = likeness.__code__.co_argcount, likeness.__defaults__ or ()

    def ask(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        missing = count - len(given)
        if named or not 0 <= missing <= len(defaults):
            bound = signature(method).bind(*given, **named)  # which raises as a call would
            bound.apply_defaults()
            given = bound.args
        elif missing:
            given += defaults[-missing:]
        return getattr(given[0], ask_name)(name, *given[1:])

    @wraps(method)
    def do(*given: Any, **named: Any) -> Any:
        return ask(given, named)

    @wraps(method)
    async def do_awaited(*given: Any, **named: Any) -> Any:
        return await ask(given, named)

    return cast(F, do_awaited if iscoroutinefunction(method) else do)


class Passthrough(JournaledLedger):
    """A `JournaledLedger` all of whose operations are done by `_do`.

    `WAITS_INSIDE` is whether the ledger behind it waits for holds by itself.
    """

    WAITS_INSIDE = False
    process = PROCESS

    def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    def _settle(self, operation: str, *arguments: Any) -> Any:
        """Do an operation after which calls that wait may be granted."""
        found = self._do(operation, *arguments)
        wake(self, *arguments[:1])
        return found

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait and not self.WAITS_INSIDE:
            from budget_core.ledger.waiting import reserve_blocking  # most programs never wait

            return reserve_blocking(self, path, amounts, key, ttl, wait)
        more = (wait,) if wait else ()
        return cast(Hold, self._do("reserve", path, amounts, key, ttl, *more))

    def close(self) -> None:
        flush_usage(self)
        self._do("close")

    set_limits = passed_on(JournaledLedger.set_limits)
    limits = passed_on(JournaledLedger.limits)
    accounts = passed_on(JournaledLedger.accounts)
    charge = passed_on(JournaledLedger.charge)
    commit = passed_on(JournaledLedger.commit)
    renew = passed_on(JournaledLedger.renew)
    release = passed_on(JournaledLedger.release)
    extend = passed_on(JournaledLedger.extend)
    hold = passed_on(JournaledLedger.hold)
    expire = passed_on(JournaledLedger.expire)
    balance = passed_on(JournaledLedger.balance)
    history = passed_on(JournaledLedger.history)
    balances = passed_on(JournaledLedger.balances)
    open_holds = passed_on(JournaledLedger.open_holds)
    note = passed_on(JournaledLedger.note)
    events = passed_on(JournaledLedger.events)
    add_usage = passed_on(JournaledLedger.add_usage)
    usage = passed_on(JournaledLedger.usage)


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
    """An `AsyncJournaledLedger` all of whose operations are done by `_do`.

    `WAITS_INSIDE` is whether what is asked waits for holds by itself.
    """

    WAITS_INSIDE = False

    process = PROCESS

    async def _do(self, operation: str, *arguments: Any) -> Any:
        raise NotImplementedError

    async def _settle(self, operation: str, *arguments: Any) -> Any:
        """Do an operation after which calls that wait may be granted."""
        found = await self._do(operation, *arguments)
        wake(self, *arguments[:1])
        return found

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        if wait and not self.WAITS_INSIDE:
            from budget_core.ledger.waiting import reserve_waiting  # most programs never wait

            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        more = (wait,) if wait else ()
        return cast(Hold, await self._do("reserve", path, amounts, key, ttl, *more))

    async def close(self) -> None:
        await flush_usage_awaited(self)
        await self._do("close")

    set_limits = passed_on(AsyncJournaledLedger.set_limits)
    limits = passed_on(AsyncJournaledLedger.limits)
    accounts = passed_on(AsyncJournaledLedger.accounts)
    charge = passed_on(AsyncJournaledLedger.charge)
    commit = passed_on(AsyncJournaledLedger.commit)
    renew = passed_on(AsyncJournaledLedger.renew)
    release = passed_on(AsyncJournaledLedger.release)
    extend = passed_on(AsyncJournaledLedger.extend)
    hold = passed_on(AsyncJournaledLedger.hold)
    expire = passed_on(AsyncJournaledLedger.expire)
    balance = passed_on(AsyncJournaledLedger.balance)
    history = passed_on(AsyncJournaledLedger.history)
    balances = passed_on(AsyncJournaledLedger.balances)
    open_holds = passed_on(AsyncJournaledLedger.open_holds)
    note = passed_on(AsyncJournaledLedger.note)
    events = passed_on(AsyncJournaledLedger.events)
    add_usage = passed_on(AsyncJournaledLedger.add_usage)
    usage = passed_on(AsyncJournaledLedger.usage)

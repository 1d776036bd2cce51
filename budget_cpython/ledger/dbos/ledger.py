"""Use a ledger from DBOS workflows: each operation is a step, and happens once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from dbos import DBOS

from budget_core.errors import refuse
from budget_core.ledger._types import AnyLedger, LedgerProtocol
from budget_core.ledger.checks import check_key
from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import TTL, Hold
from budget_core.ledger.outbox import finish
from budget_core.ledger.waiting import reserve_waiting, undoing
from budget_cpython.ledger.dbos.plain import pack, unpack
from budget_cpython.ledger.dbos.workflow import step_key, workflow
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.passthrough import AsyncPassthrough, BlockingLedger

_Step: TypeAlias = Callable[[], Awaitable[Any]]

MAX_NAME = 8


class AsyncDBOSLedger(AsyncPassthrough):
    """Any ledger, for async DBOS workflows; `budget_core.Ledger` says what each method does.

    In a workflow's own code each operation is a step: DBOS records its result or error, and a
    replay gets the same again. If a process was killed between a step and its record, the step runs
    again and finds what it did: `reserve`, `renew` and `charge` without a key get one made of
    `name`, the workflow's id and the step's, and a hold settles once. In steps and outside of
    workflows every operation goes straight to the ledger, as what operators read and note does
    everywhere.

    `ledger` is an engine's own: what a lease or an offline cap grants ends with its process. One
    that blocks is called in threads. `name`, up to 8 letters, digits and the like, tells
    applications apart that share a ledger, but not a system database. `keep` of the ledger has to
    be longer than a workflow may wait for its recovery.

    A workflow that is rewound or forked to a `reserve` takes a new hold there. One that is rewound
    or forked to between that and its `commit` has the former hold, which settles once; a charge
    that is rewound is not recorded again.
    """

    def __init__(self, ledger: AnyLedger, name: str = "dbos") -> None:
        if len(check_key(name)) > MAX_NAME:
            raise ValueError(f"name must have at most {MAX_NAME} characters, not {name!r}")
        if not hasattr(ledger, "reserve"):
            refuse("ledger", "a Ledger", ledger)
        self._ledger = ledger
        self._name = name
        self._blocks = not inspect.iscoroutinefunction(ledger.reserve)

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts on every limit of the path and of the accounts above it, or raise."""

        async def take(key: str | None) -> Hold:
            return await self._reserve(path, amounts, key, ttl, wait)

        return await self._take("reserve", take, key)

    async def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step, or raise."""

        async def take(key: str | None) -> Hold:
            return cast(Hold, await self._call("renew", hold, actual, amounts, key, ttl))

        return await self._take("renew", take, key)

    async def _take(
        self, operation: str, take: Callable[[str | None], Awaitable[Hold]], key: str | None
    ) -> Hold:
        """Take a hold, in a workflow by a key of its step."""
        if workflow() is None:
            return await take(key)

        async def step() -> Any:
            if key is not None:
                return await take(key)
            made, turn = step_key(self._name), 1
            while True:
                hold = await take(made if turn == 1 else f"{made}.{turn}")
                if hold.state not in (Hold.COMMITTED, Hold.RELEASED):
                    return hold
                turn += 1  # the workflow was rewound: its former hold stands for another call

        return cast(Hold, await self._record(operation, step))

    async def _reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None,
        ttl: float,
        wait: float | None,
    ) -> Hold:
        """Reserve without a step of its own: the waiting is within one."""
        if wait:
            ask = undoing(self._call)
            return await reserve_waiting(self._ledger, path, amounts, key, ttl, wait, ask)
        return cast(Hold, await self._call("reserve", path, amounts, key, ttl))

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent, without asking."""
        if key is not None or workflow() is None:
            return await super().charge(path, amounts, key)

        async def step() -> Any:
            return await self._call("charge", path, amounts, step_key(self._name))

        return cast(Hold, await self._record("charge", step))

    async def close(self) -> None:
        """Close the ledger."""
        await self._call("close")

    async def _do(self, operation: str, *arguments: Any) -> Any:
        if workflow() is None or OPERATIONS[operation].for_operators:
            return await self._call(operation, *arguments)

        async def step() -> Any:
            return await self._call(operation, *arguments)

        return await self._record(operation, step)

    async def _call(self, operation: str, *arguments: Any) -> Any:
        method = getattr(self._ledger, operation)
        if self._blocks:
            return await asyncio.to_thread(method, *arguments)
        return await method(*arguments)

    async def _record(self, operation: str, step: _Step) -> Any:
        async def packed() -> Any:
            return await _packed(step)

        return unpack(await DBOS.run_step_async({"name": "microbudget." + operation}, packed))


class _BlockingDBOSLedger(AsyncDBOSLedger):
    """The same for a ledger that blocks: nothing that is awaited ever waits."""

    async def _reserve(self, *arguments: Any) -> Hold:
        return cast(Hold, await self._call("reserve", *arguments))

    async def _call(self, operation: str, *arguments: Any) -> Any:
        return getattr(self._ledger, operation)(*arguments)

    async def _record(self, operation: str, step: _Step) -> Any:
        def packed() -> Any:
            return finish(_packed(step))

        return unpack(DBOS.run_step({"name": "microbudget." + operation}, packed))


class DBOSLedger(BlockingLedger):
    """Any ledger that blocks, for DBOS workflows that do; `AsyncDBOSLedger` says the rest."""

    WAITS_INSIDE = True

    def __init__(self, ledger: LedgerProtocol, name: str = "dbos") -> None:
        super().__init__(_BlockingDBOSLedger(ledger, name))


async def _packed(step: _Step) -> Any:
    try:
        return pack(await step())
    except LedgerError as error:
        return pack(error)

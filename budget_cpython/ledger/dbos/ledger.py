"""Use a ledger from DBOS workflows: each operation is a step, and happens once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from dbos import DBOS

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.limit import Limit, check_key
from budget_core.ledger.records import TTL, Balance, Hold
from budget_cpython.ledger.dbos.plain import pack, unpack
from budget_cpython.ledger.dbos.workflow import step_key, workflow
from budget_cpython.ledger.remote import AsyncRemoteLedger, RemoteLedger, finish

_Step: TypeAlias = Callable[[], Awaitable[Any]]

MAX_NAME = 8


class AsyncDBOSLedger:
    """Any ledger, for async DBOS workflows; `budget_core.Ledger` says what each method does.

    In a workflow's own code each operation is a step: DBOS records what it gave or raised, and a
    replay gets the same again. What was done by a step that was not recorded, because its process
    was killed in between, is found when the step is run again: `reserve` and `charge` without a key
    get one made of `name`, the workflow's id and the step's, and a hold settles once. In steps and
    outside of workflows every operation goes straight to the ledger.

    `ledger` is an engine's own: what a lease or an outage's cap grants ends with its process. One
    that blocks is called in threads. `name`, up to 8 letters, digits and the like, tells
    applications apart that share a ledger, but not a system database. `keep` of the ledger has to
    be longer than a workflow may wait for its recovery.

    A workflow that is rewound or forked to a `reserve` takes a new hold there. One that is rewound
    or forked to between that and its `commit` has the former hold, which settles once; a charge
    that is rewound is not recorded again.
    """

    def __init__(self, ledger: Any, name: str = "dbos") -> None:
        if len(check_key(name)) > MAX_NAME:
            raise ValueError(f"name must have at most {MAX_NAME} characters, not {name!r}")
        self._ledger = ledger
        self._name = name
        self._blocks = not inspect.iscoroutinefunction(ledger.reserve)

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        await self._do("set_limits", path, limits)

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return cast(list[Limit], await self._do("limits", path))

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return cast(list[str], await self._do("accounts"))

    async def reserve(
        self, path: str, amounts: dict[str, int], key: str | None = None, ttl: float = TTL
    ) -> Hold:
        """Hold amounts on every limit of the path and of all above it, or raise."""
        if key is not None or workflow() is None:
            return cast(Hold, await self._do("reserve", path, amounts, key, ttl))

        async def step() -> Any:
            key, turn = step_key(self._name), 1
            while True:
                named = key if turn == 1 else f"{key}.{turn}"
                hold = await self._call("reserve", path, amounts, named, ttl)
                if hold.state not in (Hold.COMMITTED, Hold.RELEASED):
                    return hold
                turn += 1  # the workflow was rewound: its former hold stands for another call

        return cast(Hold, await self._record("reserve", step))

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent without asking."""
        if key is not None or workflow() is None:
            return cast(Hold, await self._do("charge", path, amounts, key))

        async def step() -> Any:
            return await self._call("charge", path, amounts, step_key(self._name))

        return cast(Hold, await self._record("charge", step))

    async def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Record what a call used in the place of its hold."""
        return cast(Hold, await self._do("commit", hold, actual))

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return cast(Hold, await self._do("release", hold))

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        return cast(Hold, await self._do("extend", hold, ttl))

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return cast(Hold, await self._do("hold", path, id))

    async def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were."""
        return cast(int, await self._do("expire"))

    async def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        return cast(list[Balance], await self._do("balance", path))

    async def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return cast(list[Balance], await self._do("history", path))

    async def close(self) -> None:
        """Close the ledger, if it can be."""
        if hasattr(self._ledger, "close"):
            await self._call("close")

    async def _do(self, operation: str, *arguments: Any) -> Any:
        if workflow() is None:
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


class _Blocking(AsyncDBOSLedger):
    """The same, where nothing that is awaited ever waits."""

    async def _call(self, operation: str, *arguments: Any) -> Any:
        return getattr(self._ledger, operation)(*arguments)

    async def _record(self, operation: str, step: _Step) -> Any:
        def packed() -> Any:
            return finish(_packed(step))

        return unpack(DBOS.run_step({"name": "microbudget." + operation}, packed))


class DBOSLedger(RemoteLedger):
    """Any ledger that blocks, for DBOS workflows that do; `AsyncDBOSLedger` says the rest."""

    def __init__(self, ledger: Any, name: str = "dbos") -> None:
        super().__init__(cast(AsyncRemoteLedger, _Blocking(ledger, name)))


async def _packed(step: _Step) -> Any:
    try:
        return pack(await step())
    except LedgerError as error:
        return pack(error)

"""Use a ledger from DBOS workflows: each operation is a step, and happens once."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from dbos import DBOS

from budget_core.errors import refuse
from budget_core.ledger._types import AnyLedger, LedgerProtocol
from budget_core.ledger.checks import check_key
from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import Hold
from budget_core.ledger.outbox import finish
from budget_core.ledger.waiting import reserve_waiting, undoing
from budget_cpython.ledger.dbos.plain import pack, unpack
from budget_cpython.ledger.dbos.workflow import step_key, workflow
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.passthrough import AsyncPassthrough, BlockingLedger

_Step: TypeAlias = Callable[[], Awaitable[Any]]

MAX_NAME = 8
_KEY_AT = {"reserve": 2, "charge": 2, "renew": 3}  # the place of the key among the arguments


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

    WAITS_INSIDE = True

    def __init__(self, ledger: AnyLedger, name: str = "dbos") -> None:
        if len(check_key(name)) > MAX_NAME:
            raise ValueError(f"name must have at most {MAX_NAME} characters, not {name!r}")
        if not hasattr(ledger, "reserve"):
            refuse("ledger", "a Ledger", ledger)
        self._ledger = ledger
        self._name = name
        self._blocks = not inspect.iscoroutinefunction(ledger.reserve)

    async def close(self) -> None:
        """Close the ledger."""
        await self._call("close")

    async def _do(self, operation: str, *arguments: Any) -> Any:
        if workflow() is None or OPERATIONS[operation].for_operators:
            return await self._call(operation, *arguments)
        at = _KEY_AT.get(operation)

        async def step() -> Any:
            if at is None or arguments[at] is not None:
                return await self._call(operation, *arguments)
            made, turn = step_key(self._name), 1
            while True:
                key = made if turn == 1 else f"{made}.{turn}"
                hold = await self._call(operation, *arguments[:at], key, *arguments[at + 1 :])
                if operation == "charge" or hold.state not in (Hold.COMMITTED, Hold.RELEASED):
                    return hold
                turn += 1  # the workflow was rewound: its former hold stands for another call

        return await self._record(operation, step)

    async def _call(self, operation: str, *arguments: Any) -> Any:
        if operation == "reserve" and len(arguments) == 5:  # it waits within one step
            return await reserve_waiting(self._ledger, *arguments, undoing(self._call))
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

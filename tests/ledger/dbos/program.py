"""Run many DBOS workflows on one ledger, each up to a place of its own, and be killed there.

`python -m tests.ledger.dbos.program DATABASE STATES LEDGER CALLS stop` starts a workflow for every
place, waits until each has come to it, and kills its process. With `go` instead, DBOS recovers them
all. `DATABASE` is DBOS's, `STATES` that of trackers, `LEDGER` the path of a file or the conninfo of
Postgres; every call of a model is a line in the file `CALLS`.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from dbos import DBOS, SetWorkflowID, SQLAlchemyDatasource
from sqlalchemy import Connection, event

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.limit import Limit
from budget_cpython import DailyBudgetConfig, DailyBudgetTracker
from budget_cpython.ledger.dbos import AsyncDBOSLedger, DBOSBudgetStore, DBOSLedger
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.patience import PATIENCE

NOON = 20_000 * 86_400 + 43_200
KINDS = ("sync", "async")
PLACES = (
    "before-reserve", "after-reserve", "before-call", "in-call", "before-commit", "after-commit",
    "after-charge", "after-release", "after-refusal", "nowhere",
)  # fmt: skip
WORKFLOWS = [f"{kind}-{place}" for kind in KINDS for place in PLACES]
STORE = "store-after-save"  # a workflow with a tracker of its own
TOKENS = 1000  # the limit of each account
ASKED, USED, CHARGED = 100, 70, 5

_stopping = sys.argv[5:] == ["stop"]
_arrived = threading.Semaphore(0)
_never = threading.Event()


def main() -> None:
    """Start or recover the workflows."""
    database, states, ledger, calls, _ = sys.argv[1:]
    config: Any = {
        "name": "microbudget-test", "system_database_url": database, "log_level": "ERROR",
        "sys_db_pool_size": 5,
    }  # fmt: skip
    DBOS(config=config)
    turn, async_turn = _workflows(ledger, calls)
    tracked = _tracked(SQLAlchemyDatasource.create(states))
    DBOS.launch()
    if _stopping:
        for name in WORKFLOWS:
            with SetWorkflowID(name):
                if name.startswith("async"):
                    asyncio.run_coroutine_threadsafe(_start(async_turn, name), _loop()).result()
                else:
                    DBOS.start_workflow(turn, name)
        with SetWorkflowID(STORE):
            DBOS.start_workflow(tracked)
        for place in [*WORKFLOWS, STORE]:
            if not place.endswith("nowhere") and not _arrived.acquire(timeout=4 * PATIENCE):
                os._exit(3)
        for kind in KINDS:
            _result(f"{kind}-nowhere")
        os.kill(os.getpid(), signal.SIGKILL)
    for name in WORKFLOWS:
        _result(name)
    handle: Any = DBOS.retrieve_workflow(STORE)
    assert handle.get_result(polling_interval_sec=0.05) == (USED + CHARGED, None)
    DBOS.destroy()
    print("recovered")


def _workflows(where: str, calls: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    file = "=" not in where
    kind: Any = SqliteLedger if file else PostgresLedger
    blocking: Any = kind(where, timeout=PATIENCE)
    waiting: Any = blocking if file else AsyncPostgresLedger(where, timeout=PATIENCE)
    for name in WORKFLOWS:
        blocking.set_limits(name, [Limit("tokens", TOKENS), Limit("calls", 3)])
    stops: Any = _Stops(blocking)
    ledger = DBOSLedger(stops)
    async_ledger = AsyncDBOSLedger(stops if waiting is blocking else _AsyncStops(waiting))

    def call(path: str) -> int:
        """Stand for a model's provider, which sends a bill for every call."""
        with open(calls, "a", encoding="ascii") as file:
            file.write(path + "\n")
        _stop("in-call")
        return USED

    @DBOS.workflow()
    def turn(path: str) -> str:
        hold = ledger.reserve(path, {"tokens": ASKED, "calls": 1})
        _stop("before-call")
        used = DBOS.run_step({"name": "call"}, call, path)
        ledger.commit(hold, {"tokens": used})
        ledger.charge(path, {"tokens": CHARGED})
        ledger.release(ledger.reserve(path, {"tokens": 1}))
        try:
            ledger.reserve(path, {"tokens": TOKENS})
        except BudgetExceededError as error:
            return f"{hold.id} {error.left}"
        return "not refused"

    @DBOS.workflow()
    async def async_turn(path: str) -> str:
        hold = await async_ledger.reserve(path, {"tokens": ASKED, "calls": 1})
        await asyncio.to_thread(_stop, "before-call")
        used = await DBOS.run_step_async({"name": "call"}, call, path)
        await async_ledger.commit(hold, {"tokens": used})
        await async_ledger.charge(path, {"tokens": CHARGED})
        await async_ledger.release(await async_ledger.reserve(path, {"tokens": 1}))
        try:
            await async_ledger.reserve(path, {"tokens": TOKENS})
        except BudgetExceededError as error:
            return f"{hold.id} {error.left}"
        return "not refused"

    return turn, async_turn


def _tracked(source: SQLAlchemyDatasource) -> Callable[..., Any]:
    saves: list[int] = []

    @event.listens_for(source.engine, "commit")
    def commit(connection: Connection) -> None:
        if saves:
            connection.connection.commit()
            _stop("after-save")

    @DBOS.workflow()
    def tracked() -> tuple[int, str | None]:
        config = DailyBudgetConfig(daily_budget=TOKENS)
        store = DBOSBudgetStore(source, STORE)
        tracker = DailyBudgetTracker(config, clock=lambda: NOON, store=store)
        tracker.record({"total_tokens": USED})
        saves.append(USED)
        tracker.record({"total_tokens": CHARGED})
        error = tracker.store_error
        return tracker.total_tokens, None if error is None else str(error)

    return tracked


def _stop(place: str) -> None:
    """Go no further, if the workflow is the one that stops here."""
    if _stopping and str(DBOS.workflow_id).split("-", 1)[1] == place:
        _arrived.release()
        _never.wait()


class _Stops:
    """A ledger whose callers may stop just before it does something, and just after."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._ledger, operation)

        def call(*arguments: Any) -> Any:
            _stop("before-" + operation)
            try:
                given = method(*arguments)
            except BudgetExceededError:
                _stop("after-refusal")
                raise
            _stop("after-" + operation)
            return given

        return call


class _AsyncStops(_Stops):
    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._ledger, operation)

        async def call(*arguments: Any) -> Any:
            await asyncio.to_thread(_stop, "before-" + operation)
            try:
                given = await method(*arguments)
            except BudgetExceededError:
                await asyncio.to_thread(_stop, "after-refusal")
                raise
            await asyncio.to_thread(_stop, "after-" + operation)
            return given

        return call


def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


async def _start(workflow: Callable[..., Any], name: str) -> None:
    await DBOS.start_workflow_async(workflow, name)


def _result(name: str) -> None:
    handle: Any = DBOS.retrieve_workflow(name)
    given = handle.get_result(polling_interval_sec=0.05)
    expected = f"dbos:{name}:1 {TOKENS - USED - CHARGED}"
    assert given == expected, f"{name} gave {given!r}, not {expected!r}"


if __name__ == "__main__":
    main()

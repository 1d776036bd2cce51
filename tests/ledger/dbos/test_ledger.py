"""A ledger in DBOS workflows: what a step has done is done once, and a replay says it again."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.waiting import room_of
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.dbos import AsyncDBOSLedger, DBOSLedger
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.dbos.support import QUEUE, Launched, launched
from tests.ledger.patience import PATIENCE, until

LIMITS = [Limit("tokens", 1000), Limit("calls", None, "day")]
NOON = 20_000 * 86_400 + 43_200


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    with launched(tmp_path_factory.mktemp("dbos")) as one:
        yield one


@pytest.fixture
def inner() -> Ledger:
    return limited()


def limited() -> Ledger:
    ledger = Ledger(clock=lambda: NOON, max_accounts=1)
    ledger.set_limits("org", LIMITS)
    return ledger


@pytest.fixture
def ledger(inner: Ledger) -> DBOSLedger:
    return DBOSLedger(inner)


class Watched:
    """A ledger that notes what it is asked."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.asked: list[str] = []

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._ledger, operation)

        def call(*arguments: Any) -> Any:
            self.asked.append(operation)
            return method(*arguments)

        return call


def test_outside_of_workflows_it_is_the_ledger(inner: Ledger, ledger: DBOSLedger) -> None:
    hold = ledger.reserve("org", {"tokens": 10})
    assert hold is inner.hold("org", hold.id)
    assert hold.id.startswith("#")
    assert ledger.commit(hold, {"tokens": 7}) is hold
    assert [one.spent for one in ledger.balance("org")] == [0, 7]


def everything(ledger: Any) -> list[Any]:
    ledger.set_limits("org", LIMITS)
    held = ledger.reserve("org/a", {"tokens": 10, "calls": 1}, ttl=60)
    extended = ledger.extend(held, 120)
    committed = ledger.commit(held, {"tokens": 8})
    released = ledger.release(ledger.reserve("org/a", {"tokens": 5}, "mine"))
    charged = ledger.charge("org", {"tokens": 3})
    found = ledger.hold("org/a", "mine")
    given = [held, extended, committed, released, charged, found, ledger.expire()]
    given += [ledger.limits("org"), ledger.accounts(), ledger.balance("org/a")]
    return [*given, ledger.history("org")]


def test_a_replay_gives_the_same_and_asks_nothing(engine: Launched) -> None:
    inner = Ledger(clock=lambda: now[0])
    now = [NOON - 86_400]
    inner.set_limits("org", LIMITS)
    inner.charge("org", {"calls": 2})
    now[0] = NOON
    watched: Any = Watched(inner)
    ledger = DBOSLedger(watched)
    results: list[list[Any]] = []
    engine.run("all", lambda: results.append(everything(ledger)))
    asked = list(watched.asked)
    now[0] += 86_400
    engine.again("all")
    assert watched.asked == asked
    assert [fields(one) for one in results[0]] == [fields(one) for one in results[1]]
    assert [hold.state for hold in results[0][:6]] == [
        "held", "held", "committed", "released", "committed", "released",
    ]  # fmt: skip
    assert [one.spent for one in results[0][-1]] == [2]


def test_what_operators_read_is_no_step(engine: Launched, inner: Ledger) -> None:
    ledger = DBOSLedger(inner)
    found: list[Any] = []

    def read() -> None:
        ledger.note([LedgerEvent("threshold", "org", {})])
        noted = ledger.events(kinds=["threshold"])
        found.append((len(noted), ledger.open_holds(), len(ledger.balances("org"))))

    engine.run("read", read)
    engine.again("read")
    assert found == [(1, [], 2), (2, [], 2)]


def fields(value: Any) -> Any:
    if isinstance(value, list):
        return [fields(one) for one in value]
    if isinstance(value, Hold):
        return value.path, value.id, value.amounts, value.state, value.expires_at, value.actual
    return repr(value), getattr(value, "begins_at", None), getattr(value, "resets_at", None)


def exceeded(ledger: Any) -> None:
    ledger.reserve("org", {"tokens": 1001})


def unknown_account(ledger: Any) -> None:
    ledger.reserve("nobody", {"tokens": 1})


def unknown_hold(ledger: Any) -> None:
    ledger.commit(Hold("org", "never"))


def settled(ledger: Any) -> None:
    ledger.extend(ledger.charge("org", {"tokens": 1}))


def reused(ledger: Any) -> None:
    ledger.charge("org", {"tokens": 1}, "twice")
    ledger.charge("org", {"tokens": 2}, "twice")


def full(ledger: Any) -> None:
    ledger.set_limits("other", LIMITS)


def wrong(ledger: Any) -> None:
    ledger.reserve("org", {"tokens": 1}, ttl=0)


def unavailable(_: Any) -> None:
    DBOSLedger(SqliteLedger("/dev/null")).reserve("org", {"tokens": 1})


FAILURES: dict[type[Exception], Callable[[Any], None]] = {
    ValueError: wrong,
    BudgetExceededError: exceeded,
    UnknownAccountError: unknown_account,
    UnknownHoldError: unknown_hold,
    HoldSettledError: settled,
    KeyReusedError: reused,
    LedgerFullError: full,
    LedgerUnavailableError: unavailable,
}


def test_every_error_of_a_ledger_is_tried() -> None:
    ours = {
        one for one in LedgerError.__subclasses__() if one.__module__ == "budget_core.ledger.errors"
    }
    assert ours == FAILURES.keys() - {ValueError}


def test_errors_are_raised_again_by_a_replay(engine: Launched) -> None:
    watched: dict[type[Exception], Any] = {kind: Watched(limited()) for kind in FAILURES}
    caught: list[tuple[str, dict[str, Any]]] = []

    def script() -> None:
        for kind, fail in FAILURES.items():
            with pytest.raises(kind) as info:
                fail(DBOSLedger(watched[kind]))
            caught.append((str(info.value), vars(info.value)))

    engine.run("errors", script)
    asked = {kind: list(one.asked) for kind, one in watched.items()}
    engine.again("errors")
    assert asked == {kind: one.asked for kind, one in watched.items()}
    assert caught[: len(FAILURES)] == caught[len(FAILURES) :]


@pytest.mark.parametrize("kind", FAILURES, ids=[kind.__name__ for kind in FAILURES])
def test_an_error_may_end_a_workflow_and_be_pickled(
    engine: Launched, ledger: DBOSLedger, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as info:
        engine.run("ends with " + kind.__name__, lambda: FAILURES[kind](ledger))
    stored: Any = DBOS.retrieve_workflow("ends with " + kind.__name__)
    with pytest.raises(kind) as told:
        stored.get_result()
    loaded = pickle.loads(pickle.dumps(info.value))  # noqa: S301 - our own
    for one in (told.value, loaded):
        assert (str(one), vars(one)) == (str(info.value), vars(info.value))


def test_an_id_of_any_kind_makes_a_key_of_its_own(engine: Launched, ledger: DBOSLedger) -> None:
    names = ["plain-id", "with a blank", "umläut", "x" * 199 + "a", "x" * 199 + "b"]
    ids = [engine.run(name, lambda: ledger.reserve("org", {"tokens": 1}).id) for name in names]
    assert ids[0] == "dbos:plain-id:1"
    assert len({*ids}) == len(names)
    assert [one.held for one in ledger.balance("org")] == [0, len(names)]


def test_a_key_of_ones_own_is_kept(engine: Launched, ledger: DBOSLedger) -> None:
    def script() -> list[str]:
        return [ledger.reserve("org", {"tokens": 1}, "a").id, ledger.charge("org", {}, "b").id]

    assert engine.run("own keys", script) == ["a", "b"]


def test_applications_are_told_apart_by_name(engine: Launched, inner: Ledger) -> None:
    other = DBOSLedger(inner, "billing")
    assert engine.run("named", lambda: other.charge("org", {"tokens": 1}).id) == "billing:named:1"
    for wrong in ("", "ninechars", "a b", "#a"):
        with pytest.raises(ValueError, match="must"):
            DBOSLedger(inner, wrong)


def test_in_a_step_it_is_the_ledger(engine: Launched, ledger: DBOSLedger) -> None:
    def step() -> str:
        hold = ledger.reserve("org", {"tokens": 4})
        return ledger.commit(hold).id

    given = engine.run("step", lambda: DBOS.run_step({"name": "call"}, step))
    assert given.startswith("#")
    assert [one["function_name"] for one in DBOS.list_workflow_steps("step")] == ["call"]


def test_a_workflow_rewound_to_its_reserve_takes_a_new_hold(
    engine: Launched, ledger: DBOSLedger
) -> None:
    def script() -> str:
        hold = ledger.reserve("org", {"tokens": 10})
        return ledger.commit(hold, {"tokens": 6}).id

    assert engine.run("rewound", script) == "dbos:rewound:1"
    assert engine.again("rewound", 1) == "dbos:rewound:1.2"
    assert engine.again("rewound", 1) == "dbos:rewound:1.3"
    assert [one.spent for one in ledger.balance("org")] == [0, 18]


def test_a_fork_takes_holds_of_its_own(engine: Launched, ledger: DBOSLedger) -> None:
    engine.run("origin", lambda: ledger.reserve("org", {"tokens": 10}).id)
    handle: Any = DBOS.fork_workflow("origin", 1, queue_name=QUEUE)
    assert handle.get_result(polling_interval_sec=0.01) == f"dbos:{handle.workflow_id}:1"
    assert [one.held for one in ledger.balance("org")] == [0, 20]


def test_workflows_at_once_get_the_limit_and_no_more(engine: Launched, ledger: DBOSLedger) -> None:
    def script() -> bool:
        try:
            ledger.commit(ledger.reserve("org", {"tokens": 100}))
        except BudgetExceededError:
            return False
        return True

    handles = [engine.start(f"race-{number}", script) for number in range(15)]
    granted = [handle.get_result(polling_interval_sec=0.05) for handle in handles]
    assert granted.count(True) == 10
    assert [(one.spent, one.held) for one in ledger.balance("org")] == [(0, 0), (1000, 0)]


def test_steps_at_once_in_one_workflow_keep_their_own_holds(
    engine: Launched, inner: Ledger
) -> None:
    ledger = AsyncDBOSLedger(inner)
    results: list[list[tuple[str, dict[str, int]]]] = []

    async def script() -> None:
        asked = [ledger.reserve("org", {"tokens": number}) for number in range(1, 9)]
        results.append([(hold.id, hold.amounts) for hold in await asyncio.gather(*asked)])

    asyncio.run(engine.run_async("gather", script))
    assert [one.held for one in inner.balance("org")] == [0, 36]
    engine.again("gather")
    assert results[0] == results[1]
    assert [amounts for _, amounts in results[0]] == [{"tokens": one} for one in range(1, 9)]
    assert len({name for name, _ in results[0]}) == 8


def test_the_async_ledger_does_all_the_same(engine: Launched, inner: Ledger) -> None:
    ledger = AsyncDBOSLedger(inner)

    async def script() -> list[Any]:
        await ledger.set_limits("org", LIMITS)
        hold = await ledger.reserve("org", {"tokens": 10}, ttl=60)
        await ledger.extend(hold)
        await ledger.commit(hold, {"tokens": 8})
        await ledger.release(await ledger.reserve("org", {"tokens": 5}, "mine"))
        await ledger.charge("org", {"tokens": 3})
        found = [(await ledger.hold("org", "mine")).state, await ledger.expire()]
        found += [await ledger.limits("org"), await ledger.accounts(), await ledger.history("org")]
        return [*found, [one.spent for one in await ledger.balance("org")]]

    given = ["released", 0, [LIMITS[1], LIMITS[0]], ["org"], [], [0, 11]]
    assert asyncio.run(engine.run_async("async", script)) == given
    assert asyncio.run(script())[-1] == [0, 22], "outside of workflows it is the ledger"


def test_closing_closes_the_ledger_beneath(tmp_path: Path) -> None:
    inner = SqliteLedger(tmp_path / "ledger.db")
    ledger = DBOSLedger(inner)
    ledger.set_limits("org", LIMITS)
    ledger.close()
    assert not (tmp_path / "ledger.db-wal").exists()
    DBOSLedger(Ledger()).close()


def when_waiting(ledger: Ledger, then: Callable[[], object]) -> threading.Thread:
    """Do something in a thread once a call waits for a ledger."""

    def work() -> None:
        until(lambda: room_of(ledger).waiting)
        then()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_step_waits_for_what_others_hold(engine: Launched, inner: Ledger) -> None:
    held = inner.reserve("org", {"tokens": 900})
    ledger = DBOSLedger(inner)
    settles = when_waiting(inner, lambda: inner.release(held))
    results: list[Hold] = []
    engine.run(
        "waits", lambda: results.append(ledger.reserve("org", {"tokens": 500}, wait=PATIENCE))
    )
    settles.join()
    engine.again("waits")
    assert [hold.state for hold in results] == [Hold.HELD] * 2
    assert [row.held for row in inner.balance("org")] == [0, 500]


def test_an_async_step_waits_for_what_others_hold(engine: Launched, inner: Ledger) -> None:
    held = inner.reserve("org", {"tokens": 900})
    ledger = AsyncDBOSLedger(inner)

    async def reserve() -> None:
        await ledger.reserve("org", {"tokens": 500}, wait=PATIENCE)

    settles = when_waiting(inner, lambda: inner.release(held))
    asyncio.run(engine.run_async("waits-too", reserve))
    settles.join()
    assert [row.held for row in inner.balance("org")] == [0, 500]

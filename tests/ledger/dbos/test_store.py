"""A tracker's state beside DBOS's workflows: replays write nothing, and nothing newer is lost."""

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from dbos import DBOS, SQLAlchemyDatasource
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from budget_core.errors import StateCorruptError, StoreError
from budget_cpython import DailyBudgetConfig, DailyBudgetTracker
from budget_cpython.ledger.dbos import DBOSBudgetStore
from tests.ledger.dbos.support import Launched, launched

NOON = 20_000 * 86_400 + 43_200


class Store(DBOSBudgetStore):
    """A store that says where it is."""

    def __init__(self, source: SQLAlchemyDatasource, name: str) -> None:
        super().__init__(source, name)
        self.source = source


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launched]:
    with launched(tmp_path_factory.mktemp("dbos")) as one:
        yield one


@pytest.fixture
def store(engine: Launched, request: pytest.FixtureRequest) -> Store:
    return Store(engine.source, request.node.name)


def tracker(store: DBOSBudgetStore) -> DailyBudgetTracker:
    config = DailyBudgetConfig(daily_budget=1000)
    return DailyBudgetTracker(config, clock=lambda: NOON, store=store)


def record(one: DailyBudgetTracker, tokens: int) -> None:
    one.record({"total_tokens": tokens})


def stored(store: Store) -> int | None:
    """Return how many tokens anybody else finds."""
    state = DBOSBudgetStore(store.source, store.name).load()
    return None if state is None else int(state["tokens"])


def test_a_state_is_kept_and_cleared(store: Store) -> None:
    assert store.load() is None
    store.save({"tokens": 1})
    store.save({"tokens": 2})
    assert store.load() == {"tokens": 2}
    assert stored(store) == 2
    store.clear()
    assert store.load() is None
    store.save({"tokens": 3})
    assert stored(store) == 3


def test_a_day_goes_on_after_a_restart(store: Store) -> None:
    record(tracker(store), 10)
    again = tracker(DBOSBudgetStore(store.source, store.name))
    record(again, 5)
    assert again.store_error is None
    assert stored(store) == 15


def test_what_another_store_saved_is_never_overwritten(store: Store) -> None:
    one = tracker(store)
    record(one, 10)
    other = tracker(DBOSBudgetStore(store.source, store.name))
    record(other, 20)
    record(one, 1)
    assert "was saved by another store" in str(one.store_error)
    assert one.is_at_limit()
    record(one, 1)
    assert stored(store) == 30
    record(other, 2)
    assert (stored(store), other.store_error) == (32, None)
    assert store.load() is not None
    store.save({"tokens": 40})
    assert stored(store) == 40


def test_a_first_save_of_two_is_one(store: Store) -> None:
    other = DBOSBudgetStore(store.source, store.name)
    assert store.load() is other.load() is None
    store.save({"tokens": 1})
    with pytest.raises(StoreError, match="another store"):
        other.save({"tokens": 2})
    assert stored(store) == 1


def test_a_save_whose_answer_was_lost_is_done_again(store: Store) -> None:
    def lose(connection: Connection) -> None:
        connection.connection.commit()
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("lost"))

    engine = store.source.engine
    for tokens in (1, 2):  # the first is a row that was not there before
        store.load()
        event.listen(engine, "commit", lose)
        try:
            with pytest.raises(StoreError, match="lost"):
                store.save({"tokens": tokens})
        finally:
            event.remove(engine, "commit", lose)
        assert stored(store) == tokens
        store.save({"tokens": tokens + 10})
        assert stored(store) == tokens + 10


def test_a_damaged_state_counts_as_a_day_spent(store: Store) -> None:
    record(tracker(store), 10)
    spoil = text("UPDATE microbudget_states SET state = replace(state, '10', '1') WHERE name = :n")
    with store.source.engine.begin() as connection:
        connection.execute(spoil, {"n": store.name})
    with pytest.raises(StateCorruptError):
        store.load()
    found = tracker(DBOSBudgetStore(store.source, store.name, allowance=100))
    assert found.state_error is not None
    assert found.total_tokens == 900
    assert not found.is_at_limit()


def test_a_database_out_of_reach_denies(store: Store) -> None:
    def refuse(connection: Connection) -> None:
        raise OperationalError("BEGIN", {}, sqlite3.OperationalError("disk I/O error"))

    one = tracker(store)
    engine = store.source.engine
    event.listen(engine, "begin", refuse)
    try:
        record(one, 10)
        assert isinstance(one.store_error, StoreError)
        assert one.is_at_limit()
        for action in (store.load, store.clear):
            with pytest.raises(StoreError, match="disk I/O error"):
                action()
    finally:
        event.remove(engine, "begin", refuse)
    one.maybe_auto_reset()
    record(one, 1)
    assert one.store_error is None
    assert stored(store) == 11


def test_a_name_is_a_short_string(engine: Launched) -> None:
    for name in ("", "x" * 101, 5):
        with pytest.raises(ValueError, match="name must be"):
            DBOSBudgetStore(engine.source, name)  # type: ignore[arg-type]
    assert repr(DBOSBudgetStore(engine.source, "a", 5)) == "DBOSBudgetStore(name='a', allowance=5)"


def test_in_a_workflow_a_replay_writes_nothing_and_loads_what_it_loaded(
    engine: Launched, store: Store
) -> None:
    record(tracker(store), 100)
    seen: list[Any] = []

    def script() -> None:
        own = tracker(DBOSBudgetStore(engine.source, store.name))
        seen.append(own.total_tokens)
        record(own, 10)
        record(own, 5)
        seen.append((own.total_tokens, own.store_error))

    engine.run("own tracker", script)
    assert stored(store) == 115
    record(tracker(DBOSBudgetStore(engine.source, store.name)), 1000)
    engine.again("own tracker")
    assert seen == [100, (115, None)] * 2
    assert stored(store) == 1115
    steps = [one["function_name"] for one in DBOS.list_workflow_steps("own tracker")]
    assert steps == ["microbudget.state.load"] + ["microbudget.state.save"] * 2


def test_a_workflow_that_goes_on_from_an_older_state_is_refused(
    engine: Launched, store: Store
) -> None:
    seen: list[Any] = []

    def script() -> None:
        own = tracker(DBOSBudgetStore(engine.source, store.name))
        record(own, 10)
        record(own, 5)
        seen.append(own.store_error)

    engine.run("older", script)
    record(tracker(DBOSBudgetStore(engine.source, store.name)), 1000)
    engine.again("older", 3)
    assert seen[0] is None
    assert "was saved by another store" in str(seen[1])
    assert stored(store) == 1015


def test_a_tracker_that_outlives_workflows_belongs_into_steps(
    engine: Launched, store: Store
) -> None:
    one = tracker(store)

    def script() -> None:
        DBOS.run_step({"name": "call"}, record, one, 10)

    engine.run("in a step", script)
    engine.again("in a step")
    assert (stored(store), one.total_tokens, one.store_error) == (10, 10, None)

    engine.run("in its own code", lambda: record(one, 7))
    assert "use its tracker in steps" in str(one.store_error)
    assert stored(store) == 10


def test_an_async_workflow_may_have_a_tracker_too(engine: Launched, store: Store) -> None:
    async def script() -> int:
        own = tracker(DBOSBudgetStore(engine.source, store.name))
        record(own, 10)
        assert own.store_error is None
        return own.total_tokens

    assert asyncio.run(engine.run_async("async tracker", script)) == 10
    assert engine.again("async tracker") == 10
    assert stored(store) == 10


def test_a_workflow_may_clear_the_state_once(engine: Launched, store: Store) -> None:
    store.save({"tokens": 1})
    engine.run("clear", DBOSBudgetStore(engine.source, store.name).clear)
    assert store.load() is None
    store.save({"tokens": 2})
    engine.again("clear")
    assert stored(store) == 2

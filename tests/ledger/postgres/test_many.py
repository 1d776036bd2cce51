"""Many at once on Postgres: granted is the limit, exactly, and the cost is that of one."""

import asyncio
import random
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from budget_core.errors import BudgetError
from budget_core.ledger.errors import BudgetExceededError, HoldSettledError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from tests.ledger.patience import NO_HURRY, until
from tests.ledger.postgres.server import Emptier, server

NOON = 20_000 * 86_400 + 43_200


@pytest.fixture(autouse=True)
def emptier() -> Iterator[Emptier]:
    with closing(opened()) as ledger:
        ledger.accounts()
    with closing(Emptier()) as one:
        one.empty()
        yield one


def opened(clock: Callable[[], float] | None = None, **options: Any) -> PostgresLedger:
    return PostgresLedger(server().conninfo(), clock=clock, timeout=NO_HURRY, **options)


def test_no_two_operations_wait_for_each_other() -> None:
    """Each takes its locks in one order: Postgres has no deadlock to break."""
    now = [float(NOON)]
    before = deadlocks()

    def work(seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - an order of calls, not a secret
        for number in range(40):
            now[0] += 0.05
            path = chance.choice(("org", "org/a", "org/a/x", "org/b"))
            try:
                hold = ledger.reserve(path, {"calls": 1}, f"{path}{number}", ttl=1)
                chance.choice((ledger.commit, ledger.release, ledger.extend))(hold)
                ledger.balance(path)
                if number % 8 == 0:
                    ledger.set_limits("org/a", [Limit("calls", 1000, "rolling 4/4")])
                    ledger.expire()
            except HoldSettledError:
                pass

    with closing(opened(lambda: now[0], max_connections=6)) as ledger:
        for path in ("org/b", "org/a", "org"):
            ledger.set_limits(path, [Limit("calls", 10_000, "rolling 4/4"), Limit("calls", None)])
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        now[0] += 400
        rows = ledger.balance("org")
        assert [one.held for one in rows] == [0, 0]
    assert deadlocks() == before


def test_no_two_transactions_of_many_tasks_wait_for_each_other() -> None:
    now = [float(NOON)]
    before = deadlocks()
    paths = ("org", "org/a", "org/a/x", "org/b", "other", "other/a")

    async def work(ledger: AsyncPostgresLedger, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - an order of calls, not a secret
        for number in range(12):
            now[0] += 0.02
            path = chance.choice(paths)
            try:
                hold = await ledger.reserve(path, {"calls": 1}, f"{path}{number}", ttl=1)
                settle = chance.choice((ledger.commit, ledger.release, ledger.extend))
                await settle(hold)
                await ledger.charge(chance.choice(paths), {"calls": 1})
                await ledger.balance(path)
                if number % 6 == 0:
                    await ledger.set_limits("org/a", [Limit("calls", 1000, "rolling 4/4")])
                    await ledger.expire()
            except HoldSettledError:
                pass

    async def tasks(first: int) -> None:
        ledger = AsyncPostgresLedger(
            server().conninfo(), clock=lambda: now[0], timeout=NO_HURRY, max_connections=3
        )
        await asyncio.gather(*[work(ledger, first + number) for number in range(12)])
        await ledger.close()

    with closing(opened(lambda: now[0])) as ledger:
        for path in reversed(paths):  # which numbers the limits below before those above
            ledger.set_limits(path, [Limit("calls", 10_000, "rolling 4/4"), Limit("calls", None)])
        threads = [
            threading.Thread(target=asyncio.run, args=(tasks(first),)) for first in (0, 100, 200)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        now[0] += 400
        assert {one.held for one in ledger.balance("org") + ledger.balance("other")} == {0}
        assert sum(one.spent for one in ledger.balances() if one.window == "run") > 0
    assert deadlocks() == before


def test_limits_that_are_replaced_hold_all_the_time() -> None:
    outcomes: list[object] = []
    done = threading.Event()

    def claim() -> None:
        while not done.is_set():
            try:
                outcomes.append(ledger.reserve("org", {"calls": 1}))
            except BudgetError as error:
                outcomes.append(type(error))

    with closing(opened()) as ledger:
        ledger.set_limits("org", [Limit("calls", 0)])
        threads = [threading.Thread(target=claim) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(100):
                ledger.set_limits("org", [Limit("calls", 0, ("day", "run")[number % 2])])
            until(lambda: outcomes)
        finally:
            done.set()
            for thread in threads:
                thread.join()
    assert set(outcomes) == {BudgetExceededError}


def wait_until_gone() -> None:
    """Wait until all ledgers are closed: the server reports what they counted then."""
    query = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'microbudget'"
    until(lambda: not server().execute(query))


def deadlocks() -> int:
    wait_until_gone()
    return int(server().execute("SELECT sum(deadlocks) FROM pg_stat_database")[0][0])


def test_a_reserve_reads_no_more_rows_where_there_are_many(emptier: Emptier) -> None:
    emptier.execute(
        "INSERT INTO microbudget.limits (account, axis, span, cap, earliest, start, finish) "
        "SELECT 'other' || n, 'calls', 'run', 9, 0, 0, 1::bigint << 50 "
        "FROM generate_series(1, 20000) n; "
        "INSERT INTO microbudget.holds (root, id, path, amounts, state, expires, limits, cells) "
        "SELECT 'other' || n, 'k', 'other' || n, '{}', 'held', 1::bigint << 50, '{}', '{}' "
        "FROM generate_series(1, 20000) n"
    )
    with closing(opened()) as ledger:
        ledger.set_limits("org", [Limit("calls", 100)])
    before = rows_read(emptier)
    with closing(opened()) as ledger:
        ledger.reserve("org/a", {"calls": 1})
        ledger.commit(ledger.reserve("org/a", {"calls": 1}, "k"))
        ledger.balance("org/a")
        ledger.expire()
    assert rows_read(emptier) - before < 60


def rows_read(emptier: Emptier) -> int:
    """Return what all who have gone have read of the tables, by index or not."""
    wait_until_gone()
    emptier.execute("SELECT pg_stat_force_next_flush()")  # what it has read itself does not count
    (row,) = emptier.execute(
        "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables "
        "WHERE schemaname = 'microbudget'"
    )
    return int(row[0])


def test_holds_that_were_settled_long_ago_are_forgotten_on_the_way(emptier: Emptier) -> None:
    now = [float(NOON)]
    with closing(opened(lambda: now[0], keep=60)) as ledger:
        ledger.set_limits("org", [Limit("calls", None)])
        for _ in range(250):
            ledger.charge("org", {"calls": 1})
        now[0] += 61
        for _ in range(200):
            ledger.charge("org", {"calls": 1})
        assert emptier.execute("SELECT count(*) FROM microbudget.holds") == [(200,)]
        assert ledger.balance("org")[0].spent == 450


def test_ledgers_that_live_shortly_forget_too(
    emptier: Emptier, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [float(NOON)]
    with closing(opened(lambda: now[0], keep=60)) as ledger:
        ledger.set_limits("org", [Limit("calls", None)])
        ledger.charge("org", {"calls": 1})
    now[0] += 61
    monkeypatch.setattr(secrets, "randbelow", lambda most: most - 1)  # where this one begins
    with closing(opened(lambda: now[0], keep=60)) as ledger:
        ledger.charge("org", {"calls": 1})
    assert emptier.execute("SELECT count(*) FROM microbudget.holds") == [(1,)]

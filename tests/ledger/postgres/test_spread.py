"""The accounts of one ledger are spread over several databases, each root in one of them."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.opening import open_async_ledger, open_ledger
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ops.doctor import examine
from tests.ledger.engines import in_loop
from tests.ledger.patience import PATIENCE
from tests.ledger.postgres.server import PASSWORD, PostgresServer, server, several_databases
from tests_micro.support import FakeClock

SCHEMA = "spread"
NOON = 20_000 * 86_400 + 43_200
ROOTS = [f"org{number}" for number in range(9)]
PLACES = [2, 1, 1, 0, 1, 1, 0, 1, 0]  # of these roots in three databases: it never changes


def conninfos() -> list[str]:
    return [server().conninfo(dbname=name) for name in several_databases()]


def opened(each: list[str] | str, **options: Any) -> PostgresLedger:
    return PostgresLedger(each, **{"schema": SCHEMA, "timeout": PATIENCE, **options})


def execute(database: int, statement: str) -> list[Any]:
    """Run a statement on the schema of one of the databases, from 0."""
    path = f"-c search_path={SCHEMA}"
    name = several_databases()[database]
    conninfo = server().conninfo(dbname=name, options=path)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(autouse=True)
def _without_schema() -> Iterator[None]:
    yield
    for number in range(3):
        execute(number, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def test_a_root_stays_in_the_database_that_its_name_gives() -> None:
    with closing(opened(conninfos())) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("calls", 9)])
            ledger.reserve(f"{root}/a", {"calls": 1})
        assert ledger.accounts() == ROOTS
        assert [one.account for one in ledger.balances()] == ROOTS
        assert [one.path for one in ledger.open_holds(most=5)] == [f"{one}/a" for one in ROOTS[:5]]
    for place in range(3):
        rows = execute(place, "SELECT account FROM limits ORDER BY account")
        kept = [root for root, at in zip(ROOTS, PLACES, strict=True) if at == place]
        assert [root for (root,) in rows] == kept
    assert execute(0, "SELECT count(*) FROM events") == [(len(ROOTS),)]
    assert execute(1, "SELECT count(*) FROM events") == [(0,)]


def test_a_wrong_list_of_databases_is_refused_with_both_places() -> None:
    one, two, three = conninfos()
    with closing(opened([one, two, three])) as ledger:
        ledger.accounts()
    for wrong, says in (
        ([two, one, three], "database 1 of 3: schema spread there says that it is database 2 of 3"),
        ([one, two], "database 1 of 2: schema spread there says that it is database 1 of 3"),
        ([one, two, three, three], "database 1 of 4: schema spread there says .* 1 of 3"),
        ([one, one, three], "database 2 of 3: schema spread there says that it is database 1 of 3"),
        ([two], "says that it is database 2 of 3 of its ledger, not 1 of 1"),
    ):
        refused = pytest.raises(LedgerUnavailableError, match=says)
        with closing(opened(wrong)) as ledger, refused as caught:
            ledger.accounts()
        assert caught.value.applied is False


def test_a_ledger_of_one_database_is_no_first_of_several() -> None:
    one, two, three = conninfos()
    with closing(opened(one)) as ledger:
        ledger.set_limits("org1", [Limit("calls", 9)])
    refused = pytest.raises(
        LedgerUnavailableError, match="database 1 of 1 of its ledger, not 1 of 3"
    )
    with closing(opened([one, two, three])) as ledger, refused:
        ledger.limits("org3")


def test_databases_of_two_ledgers_are_not_taken_for_one() -> None:
    one, two, three = conninfos()
    with closing(opened([one, two, three])) as ledger:
        ledger.accounts()
    execute(1, f"DROP SCHEMA {SCHEMA} CASCADE")
    with closing(opened([three, two], schema="other_spread")) as other:
        other.accounts()
    execute(1, f"ALTER SCHEMA other_spread RENAME TO {SCHEMA}")
    execute(2, "DROP SCHEMA other_spread CASCADE")
    execute(1, "UPDATE schema_version SET places = 3")
    with closing(opened([one, two, three])) as ledger:
        assert ledger.limits("org3") == []
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError, match=r"database 2 of 3: .* another ledger"):
                ledger.limits("org2")


@contextmanager
def halted(down: PostgresServer) -> Iterator[None]:
    down.halt()
    try:
        yield
    finally:
        down.start()


@pytest.mark.slow
@pytest.mark.parametrize("opener", [open_ledger, in_loop(open_async_ledger)], ids=["sync", "async"])
@pytest.mark.parametrize("down", [0, 1])
def test_roots_of_a_server_that_is_down_are_refused_and_the_others_continue(
    opener: Any, down: int, three_servers: list[PostgresServer]
) -> None:
    url = " ".join(f"postgresql://postgres@/postgres?host={one.folder}" for one in three_servers)
    options = {"timeout": PATIENCE, "schema": f"spread_{down}_{opener is open_ledger}".lower()}

    def check(ledger: Any) -> None:
        for root, place in zip(ROOTS, PLACES, strict=True):
            if place != down:
                assert ledger.reserve(f"{root}/a", {"calls": 1}).state == "held"
                continue
            with pytest.raises(LedgerUnavailableError, match=f"database {down + 1} of 3"):
                ledger.reserve(f"{root}/a", {"calls": 1})

    with closing(opener(url, **options)) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("calls", 9)])
        with halted(three_servers[down]):
            check(ledger)
            with closing(opener(url, **options)) as begun_since:
                check(begun_since)
                for ask in (begun_since.accounts, begun_since.balances, begun_since.expire):
                    with pytest.raises(LedgerUnavailableError, match=f"database {down + 1} of 3"):
                        ask()
        kept = [2 * (place != down) for place in PLACES]
        assert [one.held for one in ledger.balances()] == kept
        assert ledger.reserve(ROOTS[PLACES.index(down)], {"calls": 1}).state == "held"
        outages = ledger.events(kinds=["outage"])
        assert len(outages) == 1


@pytest.fixture(scope="module")
def three_servers() -> Iterator[list[PostgresServer]]:
    servers = [PostgresServer(fsync=False) for _ in range(3)]
    yield servers
    for one in servers:
        one.stop()


def test_holds_of_the_others_expire_while_one_is_wrong() -> None:
    now = FakeClock(NOON)
    with closing(opened(conninfos(), clock=now)) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("calls", 9)])
            ledger.reserve(root, {"calls": 1}, ttl=10)
        execute(0, "ALTER TABLE holds RENAME TO away")
        now.now += 11
        with pytest.raises(LedgerUnavailableError, match="database 1 of 3"):
            ledger.expire()
        for number in (1, 2):
            rows = execute(number, "SELECT DISTINCT state FROM holds")
            assert rows == [("expired",)]


def test_servers_whose_clocks_are_in_two_windows_answer_together() -> None:
    with closing(opened(conninfos())) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("calls", 9, "hour")])
            ledger.charge(root, {"calls": 1})
        ends = [3600 * (int(time.time()) // 3600 + ahead) for ahead in (0, 1, 2)]
        for number, end in enumerate(ends):  # each server's next window is another one
            execute(
                number,
                "CREATE OR REPLACE FUNCTION clock(p_now bigint) RETURNS bigint "
                f"LANGUAGE sql AS 'SELECT {(end + 3700) * 1000}::bigint'",
            )
        found = ledger.balances()
        assert [one.spent for one in found] == [0] * len(ROOTS)
        assert [one.resets_at for one in found] == [ends[place] + 7200 for place in PLACES]


def test_several_urls_are_one_ledger() -> None:
    url = " ".join(
        f"postgresql://postgres:{PASSWORD}@/{name}?host={server().folder}"
        for name in several_databases()
    )
    with closing(open_ledger(url, schema=SCHEMA, timeout=PATIENCE)) as ledger:
        for root in ROOTS:
            ledger.set_limits(root, [Limit("calls", 9)])
        assert ledger.note([LedgerEvent("a", "org1", {}, "once")]) == [len(ROOTS) + 1]
    assert len(execute(2, "SELECT account FROM limits")) == PLACES.count(2)
    with pytest.raises(ValueError, match="begins with"):
        open_ledger(url.replace("postgresql:", "nothing:", 1))


def test_each_database_is_examined() -> None:
    each = [f"postgresql://postgres@/{name}?host={server().folder}" for name in several_databases()]
    findings = dict(examine(" ".join(each), int(time.time()), {}))
    assert ", with 3 databases, answers: 0 accounts" in findings["engine"].found
    assert findings["durability"].found.startswith("database 1 of 3: fsync is off")


@pytest.mark.parametrize("each", [[], ["host=a", "nonsense"]])
def test_a_list_without_or_with_odd_conninfos_is_refused(each: list[str]) -> None:
    with pytest.raises(ValueError, match="conninfo must be"):
        PostgresLedger(each)

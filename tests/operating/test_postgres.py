"""The steps for a ledger in Postgres, and for services before it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.postgres.schema import MIGRATIONS
from tests.ledger.patience import NO_HURRY
from tests.ledger.postgres.server import PostgresServer
from tests.operating.support import Operator
from tests.serve.support import Service


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer(fsync=True)
    yield started
    started.stop()


@pytest.fixture
def url(server: PostgresServer) -> str:
    server.execute("DROP SCHEMA IF EXISTS microbudget CASCADE")
    return f"postgresql://postgres@/postgres?host={quote(str(server.folder), safe='')}"


@pytest.fixture
def operator(tmp_path: Path, url: str) -> Operator:
    return Operator(tmp_path, url)


def calls(url: str) -> int:
    with closing(PostgresLedger(url, timeout=NO_HURRY)) as ledger:
        return sum(row.spent for row in ledger.balance("acme") if row.axis == "calls")


def charge(url: str, count: int) -> None:
    with closing(PostgresLedger(url, timeout=NO_HURRY)) as ledger:
        ledger.set_limits("acme", [Limit("calls", 100, "month")])
        ledger.charge("acme", {"calls": count})


def test_a_database_is_backed_up_and_restored(url: str, operator: Operator) -> None:
    charge(url, 5)
    operator.follow("Back up Postgres")
    charge(url, 50)
    assert calls(url) == 55
    assert "ok       engine" in operator.follow("Restore Postgres")
    assert calls(url) == 5
    charge(url, 1)
    assert calls(url) == 6


def test_services_are_replaced_one_after_another(url: str, operator: Operator) -> None:
    charge(url, 5)
    options = ("--engine", url, "--listen", "127.0.0.1:0")
    with Service(*options) as first, Service(*options) as second:
        assert first.end() == (0, "")
        with closing(HttpLedger(second.url, timeout_s=NO_HURRY)) as ledger:
            ledger.charge("acme", {"calls": 1})
        with Service(*options) as third:
            operator.variables["SERVICE"] = third.url
            said = operator.follow("Upgrade services on Postgres")
            assert said.split()[-1] == str(len(MIGRATIONS))
            with closing(HttpLedger(third.url, timeout_s=NO_HURRY)) as ledger:
                ledger.charge("acme", {"calls": 1})
    assert calls(url) == 7


def test_an_older_release_that_connects_to_a_newer_schema_is_refused(
    server: PostgresServer, url: str, operator: Operator
) -> None:
    charge(url, 5)
    server.execute("UPDATE microbudget.schema_version SET version = 99")
    assert "this release of microbudget works with" in operator.run("microbudget status", code=1)

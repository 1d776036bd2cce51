"""A ledger on Postgres makes its schema, and says what it cannot work with."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import remote
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from tests.forked import begin_in_child, exit_code
from tests.ledger.patience import PATIENCE
from tests.ledger.postgres.server import PASSWORD, server

SCHEMA = "ledger_start"
NOON = 20_000 * 86_400 + 43_200


@pytest.fixture(autouse=True)
def _without_schema() -> Iterator[None]:
    yield
    server().execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def opened(**options: Any) -> PostgresLedger:
    return PostgresLedger(server().conninfo(), schema=SCHEMA, **{"timeout": PATIENCE, **options})


def test_servers_that_start_at_once_make_one_schema() -> None:
    ledgers = [opened() for _ in range(8)]
    start = threading.Barrier(len(ledgers))
    trouble: list[Exception] = []

    def begin(number: int) -> None:
        start.wait()
        try:
            ledgers[number].set_limits(f"org{number}", [Limit("calls", number)])
        except Exception as error:  # noqa: BLE001 - shown below
            trouble.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(ledgers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble
    assert ledgers[0].accounts() == [f"org{number}" for number in range(8)]
    for ledger in ledgers:
        ledger.close()
    assert server().execute("SELECT version FROM ledger_start.schema_version") == [(1,)]


def test_a_later_schema_is_refused() -> None:
    with closing(opened()) as ledger:
        ledger.accounts()
    server().execute("UPDATE ledger_start.schema_version SET version = 7")
    later = pytest.raises(LedgerUnavailableError, match="version 7, later than 1")
    with closing(opened()) as ledger, later as caught:
        ledger.accounts()
    assert caught.value.applied is False


def test_a_ledger_that_may_not_migrate_changes_nothing() -> None:
    with closing(opened(migrate=False)) as ledger:
        with pytest.raises(LedgerUnavailableError, match="migrate=False"):
            ledger.accounts()
        assert server().execute("SELECT to_regnamespace(%s)", SCHEMA) == [(None,)]
        with closing(opened()) as other:
            other.set_limits("org", [Limit("calls", 1)])
        assert ledger.accounts() == ["org"]


def test_a_role_needs_the_rights_that_are_documented_and_no_more() -> None:
    def clock() -> float:
        return NOON

    with closing(opened(clock=clock)) as ledger:
        ledger.set_limits("org", [Limit("calls", 5, "hour"), Limit("calls", 5)])
    server().execute(
        f"CREATE ROLE ledger_user LOGIN; GRANT USAGE ON SCHEMA {SCHEMA} TO ledger_user; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO ledger_user"
    )
    conninfo = server().conninfo(user="ledger_user")
    try:
        with closing(
            PostgresLedger(conninfo, schema=SCHEMA, migrate=False, timeout=PATIENCE, clock=clock)
        ) as ledger:
            ledger.commit(ledger.reserve("org/a", {"calls": 1}))
            ledger.set_limits("org/a", [Limit("calls", 2, "day")])
            ledger.expire()
            assert [one.spent for one in ledger.balance("org")] == [1, 1]
            server().execute(f"REVOKE USAGE ON SCHEMA {SCHEMA} FROM ledger_user")
            with pytest.raises(LedgerUnavailableError, match="permission denied"):
                ledger.reserve("org", {"calls": 1})
        denied = pytest.raises(LedgerUnavailableError, match="permission denied")
        refused = PostgresLedger(conninfo, schema="no_right", timeout=PATIENCE)
        with closing(refused) as ledger, denied:
            ledger.accounts()
    finally:
        server().execute("DROP OWNED BY ledger_user; DROP ROLE ledger_user")


@pytest.mark.parametrize("name", ["", "Ledger", 'a"b', "a b", "1a", "pg_own", "a" * 64, "a;", None])
def test_a_schema_needs_a_plain_name(name: Any) -> None:
    with pytest.raises(ValueError, match="schema must be"):
        PostgresLedger(server().conninfo(), schema=name)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_timeout_is_seconds(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be"):
        AsyncPostgresLedger(server().conninfo(), timeout=timeout)


def test_at_least_one_connection_is_needed() -> None:
    with pytest.raises(ValueError, match="max_connections must be"):
        PostgresLedger(server().conninfo(), max_connections=0)


@pytest.mark.parametrize(
    "conninfo",
    [
        f"postgresql://user:{PASSWORD}@:x@host/db",
        f"postgresql://user:a/{PASSWORD}@host/db",
        f"postgresql://user:a@{PASSWORD}@host/db",
        f"password='{PASSWORD}",
        f"host=h port={PASSWORD}",
        f"{PASSWORD}=3",
    ],
)
def test_a_conninfo_that_cannot_be_read_is_not_shown(conninfo: str) -> None:
    with pytest.raises(ValueError, match="conninfo must be") as caught:
        PostgresLedger(conninfo)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_no_error_and_no_repr_shows_the_password() -> None:
    conninfo = f"postgresql://postgres:{PASSWORD}@/none?host={server().folder}"
    with closing(PostgresLedger(conninfo, timeout=PATIENCE)) as ledger:
        with pytest.raises(LedgerUnavailableError, match="none") as caught:
            ledger.accounts()
        shown = [repr(ledger), repr(vars(ledger)), repr(caught.value), repr(caught.value.cause)]
    assert not [text for text in shown if PASSWORD in text]


def test_a_connection_with_another_isolation_is_refused() -> None:
    options = "-c default_transaction_isolation=serializable"

    def connect() -> "psycopg.Connection[Any]":
        return psycopg.connect(server().conninfo(options=options), autocommit=True)

    refused = pytest.raises(LedgerUnavailableError, match="READ COMMITTED, not serializable")
    unfit = PostgresLedger(connect, schema=SCHEMA, timeout=PATIENCE)
    with closing(unfit) as ledger, refused:
        ledger.accounts()
    own = server().conninfo(options=options)
    with closing(PostgresLedger(own, schema=SCHEMA, timeout=PATIENCE)) as ledger:
        assert ledger.accounts() == []


@pytest.mark.parametrize("behind_pooler", [True, False])
def test_connections_can_be_the_callers_own_and_behind_a_pooler(
    behind_pooler: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SWEEP_EVERY", 10**9)  # which would be prepared, too
    connections: list[psycopg.Connection[Any]] = []

    def connect() -> "psycopg.Connection[Any]":
        connections.append(psycopg.connect(server().conninfo(), autocommit=True))
        return connections[-1]

    with closing(
        PostgresLedger(connect, schema=SCHEMA, timeout=PATIENCE, behind_pooler=behind_pooler)
    ) as ledger:
        ledger.set_limits("org", [Limit("calls", 1)])
        assert ledger.reserve("org", {"calls": 1}).state == "held"
        (own,) = connections
        prepared = own.execute("SELECT count(*) FROM pg_prepared_statements").fetchall()
        assert prepared == [(0 if behind_pooler else 2,)]


@pytest.mark.parametrize("behind_pooler", [True, False])
def test_a_connection_behind_a_pooler_is_given_no_settings(behind_pooler: bool) -> None:
    with closing(opened(behind_pooler=behind_pooler, timeout=77)) as ledger:
        ledger.accounts()
        server().execute(
            f"CREATE OR REPLACE FUNCTION {SCHEMA}.accounts() RETURNS jsonb LANGUAGE sql AS $$ "
            "SELECT jsonb_build_array('ok', jsonb_build_array("
            "current_setting('statement_timeout'))) $$"
        )
        assert ledger.accounts() == ["0" if behind_pooler else "77s"]


def test_a_forked_process_has_connections_of_its_own() -> None:
    with closing(opened()) as ledger:
        ledger.set_limits("org", [Limit("calls", 100)])

        def use() -> None:
            for _ in range(20):
                ledger.commit(ledger.reserve("org", {"calls": 1}))

        def use_and_close() -> None:
            use()
            ledger.close()

        child = begin_in_child(use_and_close)
        use()
        assert exit_code(child) == 0
        assert ledger.balance("org")[0].spent == 40

"""A ledger on Postgres makes its schema, and says what it cannot work with."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres.server import PASSWORD, server

SCHEMA = "ledger_start"
SESSION = """SELECT jsonb_build_array('ok', jsonb_build_array(
    count(*)::text, current_setting('statement_timeout'))) FROM pg_prepared_statements"""
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
    failures: list[Exception] = []

    def begin(number: int) -> None:
        start.wait()
        try:
            ledgers[number].set_limits(f"org{number}", [Limit("calls", number)])
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(ledgers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert ledgers[0].accounts() == [f"org{number}" for number in range(8)]
    for ledger in ledgers:
        ledger.close()
    assert server().execute("SELECT version FROM ledger_start.schema_version") == [(3,)]


def test_a_later_schema_is_refused() -> None:
    with closing(opened()) as ledger:
        ledger.accounts()
    server().execute("UPDATE ledger_start.schema_version SET version = 7")
    later = pytest.raises(LedgerUnavailableError, match="version 7, later than 3")
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

    own = server().conninfo(options=options)
    refused = pytest.raises(LedgerUnavailableError, match="READ COMMITTED, not SERIALIZABLE")
    unfit = PostgresLedger(own, schema=SCHEMA, timeout=PATIENCE, behind_pooler=True)
    with closing(unfit) as ledger, refused:
        ledger.accounts()
    with closing(PostgresLedger(own, schema=SCHEMA, timeout=PATIENCE)) as ledger:
        assert ledger.accounts() == []


def test_a_conninfo_can_be_a_function_that_is_asked_for_each_connection() -> None:
    asked: list[str] = []

    def conninfo() -> str:
        asked.append(server().conninfo())
        return asked[-1]

    with closing(PostgresLedger(conninfo, schema=SCHEMA, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("calls", 1)])
        before = len(asked)
        server().execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'microbudget'"
        )
        assert ledger.reserve("org", {"calls": 1}).state == "held"
        assert len(asked) > before


@pytest.mark.parametrize("behind_pooler", [True, False])
def test_a_connection_behind_a_pooler_has_nothing_prepared_and_no_settings(
    behind_pooler: bool,
) -> None:
    with closing(opened(behind_pooler=behind_pooler, timeout=77, max_connections=1)) as ledger:
        ledger.accounts()
        server().execute(
            f"CREATE OR REPLACE FUNCTION {SCHEMA}.accounts() RETURNS jsonb LANGUAGE sql "
            f"AS $$ {SESSION} $$"
        )
        ledger.limits("org")
        assert ledger.accounts() == (["0", "0"] if behind_pooler else ["2", "77s"])


def test_calls_that_wait_for_a_connection_fail_with_it() -> None:
    asked: list[str] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def main() -> None:
        listener = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        host, port = listener.sockets[0].getsockname()

        def conninfo() -> str:
            asked.append(f"host={host} port={port} user=x")
            return asked[-1]

        ledger = AsyncPostgresLedger(conninfo, timeout=PATIENCE)
        calls = [ledger.accounts() for _ in range(5)]
        for failed in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(failed, LedgerUnavailableError)
            assert failed.applied is False
        await ledger.close()
        listener.close()
        await listener.wait_closed()

    asyncio.run(main())
    assert len(asked) == 1


def test_a_program_that_leaves_its_ledger_open_ends_at_once_and_quietly() -> None:
    code = (
        "import sys; from budget_cpython.ledger.postgres import PostgresLedger; "
        f"ledger = PostgresLedger(sys.argv[1], schema={SCHEMA!r}); print(ledger.accounts())"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, server().conninfo()],
        capture_output=True,
        text=True,
        timeout=NO_HURRY,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")

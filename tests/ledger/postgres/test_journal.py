"""What operators read from Postgres: in the order of commits, by who may only read."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.wall_clock import DAY
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.ledger.postgres import PostgresLedger
from tests.ledger.patience import NO_HURRY, until
from tests.ledger.postgres.server import server

SCHEMA = "ledger_journal"
NOON = 20_000 * DAY + DAY // 2
NOTE = f"""SELECT {SCHEMA}.note('mine', '[["a", "", "", "{{}}"]]', 9, 9, NULL, 0)"""
ONE = LedgerEvent("a", "", {})


@pytest.fixture(autouse=True)
def _without_schema() -> Iterator[None]:
    yield
    server().execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def opened(**options: Any) -> PostgresLedger:
    conninfo = server().conninfo(**options.pop("settings", {}))
    return PostgresLedger(conninfo, schema=SCHEMA, **{"timeout": NO_HURRY, **options})


def test_no_event_is_seen_before_one_of_a_smaller_number() -> None:
    with closing(opened()) as ledger, psycopg.connect(server().conninfo()) as slow:
        assert ledger.note([ONE]) == [1]
        assert slow.execute(NOTE.encode()).fetchall() == [(["ok", [2]],)]
        numbers: list[int] = []
        other = threading.Thread(target=lambda: numbers.extend(ledger.note([ONE])))
        other.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        until(lambda: server().execute(waiting) == [(1,)])
        assert [one.number for one in ledger.events(after=0)] == [1]
        slow.commit()
        other.join(NO_HURRY)
        assert numbers == [3]
        assert [one.number for one in ledger.events(after=1)] == [2, 3]


def test_an_operation_that_is_sent_again_counts_once() -> None:
    used = '[[7200, "org", "m", "", {"tokens": 5}]]'
    with closing(opened()) as ledger, psycopg.connect(server().conninfo()) as again:
        assert ledger.note([ONE]) == [1]
        for _ in range(2):
            assert again.execute(NOTE.encode()).fetchall() == [(["ok", [2]],)]
            again.execute(f"SELECT {SCHEMA}.add_usage('other', %s, 0, 0, 0, 0)".encode(), (used,))
        again.commit()
        assert [one.number for one in ledger.events()] == [1, 2]
        assert [one.amounts for one in ledger.usage()] == [{"tokens": 5}]


def test_a_number_that_was_not_committed_is_given_again() -> None:
    with closing(opened()) as ledger, psycopg.connect(server().conninfo()) as slow:
        assert ledger.note([ONE]) == [1]
        slow.execute(NOTE.encode())
        slow.rollback()
        assert ledger.note([ONE]) == [2]


def test_who_may_only_select_reads_all_of_it_also_what_is_over() -> None:
    clock = NOON
    with closing(opened(clock=lambda: clock)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 9, "hour")])
        ledger.reserve("org", {"tokens": 1}, ttl=60)
        ledger.reserve("org", {"tokens": 2}, ttl=9000)
        ledger.note([ONE])
        ledger.add_usage([HourOfUsage(NOON, "org", "m", "", {"tokens": 2})])
    server().execute(
        "DO $$ BEGIN CREATE ROLE looker LOGIN; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$; "
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO looker; "
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO looker"
    )
    with closing(opened(settings={"user": "looker"}, clock=lambda: clock)) as ledger:
        for now, counted in ((NOON, (0, 3)), (NOON + 60, (1, 2)), (NOON + 3600, (0, 0))):
            clock = now
            (row,) = ledger.balances("org")
            assert (row.spent, row.held) == counted
            assert row.begins_at == now // 3600 * 3600
        assert [one.amounts for one in ledger.open_holds()] == [{"tokens": 2}]
        assert [one.kind for one in ledger.events()] == ["limits", "a"]
        assert [one.amounts for one in ledger.usage()] == [{"tokens": 2}]
        with pytest.raises(LedgerUnavailableError, match="may not"):
            ledger.note([ONE])


def test_a_schema_of_the_first_version_is_brought_up_to_date() -> None:
    with closing(opened(clock=lambda: NOON)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 9)])
    server().execute(  # what the first version had not
        f"SET search_path = {SCHEMA}; ALTER TABLE holds DROP taken; "  # noqa: S608
        "DROP TABLE events, last_event, usage, replies CASCADE; "
        "ALTER TABLE schema_version DROP ledger, DROP place, DROP places; "
        "UPDATE schema_version SET version = 1"
    )
    server().execute(
        f"INSERT INTO {SCHEMA}.holds (root, id, path, amounts, state, expires, limits, cells) "  # noqa: S608
        "VALUES ('org', 'k', 'org', '{\"tokens\": 1}', 'held', %s, '{1}', '{0}')",
        (NOON + 400) * 1000,
    )
    refused = pytest.raises(LedgerUnavailableError, match="not up to date")
    with closing(opened(migrate=False)) as ledger, refused:
        ledger.balances()
    with closing(opened(clock=lambda: NOON)) as ledger:
        assert [(one.id, one.taken_at) for one in ledger.open_holds()] == [("k", NOON + 100)]
        assert ledger.reserve("org", {"tokens": 1}).state == "held"
        assert len(ledger.open_holds()) == 2

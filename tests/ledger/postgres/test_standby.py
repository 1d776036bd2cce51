"""A server that dies beside its standby: the promoted standby continues the ledger."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from time import time

import psycopg
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.postgres import PostgresLedger
from tests.ledger.patience import PATIENCE, until
from tests.ledger.postgres.server import PASSWORD, ROOT_RUNS_AS, WAIT, PostgresServer

pytestmark = pytest.mark.slow


class Standby(PostgresServer):
    """A copy of another server that follows it, until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        self._fsync = "off"
        self._user = ROOT_RUNS_AS if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="microbudget-pg-"))
        self._data = self.folder / "data"
        if self._user:
            shutil.chown(self.folder, self._user)
        source = psycopg.conninfo.make_conninfo(host=str(primary.folder), user="postgres")
        self._run(
            "pg_basebackup", "-d", source, "-D", self._data, "-R", "-X", "stream", "-c", "fast"
        )
        self.start()

    def promote(self) -> None:
        """Have it take over."""
        self._run("pg_ctl", *WAIT, "-D", self._data, "promote")


@pytest.fixture
def servers() -> Iterator[tuple[PostgresServer, Standby]]:
    with ExitStack() as stack:
        primary = PostgresServer(fsync=False)
        stack.callback(primary.stop)
        standby = Standby(primary)
        stack.callback(standby.stop)
        yield primary, standby


def wait_until_copied(primary: PostgresServer) -> None:
    """Wait until the standby has all that the primary has."""
    copied = "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication"
    until(lambda: primary.execute(copied) == [(True,)])


def test_a_promoted_standby_continues_the_ledger(
    servers: tuple[PostgresServer, Standby],
) -> None:
    primary, standby = servers
    conninfo = psycopg.conninfo.make_conninfo(
        host=f"{primary.folder},{standby.folder}",
        user="postgres",
        password=PASSWORD,
        dbname="postgres",
        target_session_attrs="read-write",
    )
    with closing(PostgresLedger(conninfo, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100)])
        hold = ledger.reserve("org", {"tokens": 2}, key="k")
        wait_until_copied(primary)
        primary.halt()
        standby.promote()
        assert until(lambda: ledger.reserve("org", {"tokens": 5}, key="lost")).state == "held"
        assert ledger.reserve("org", {"tokens": 5}, key="lost").state == "held"
        assert ledger.commit(hold, {"tokens": 3}).state == "committed"
        (found,) = ledger.balance("org")
        assert (found.spent, found.held) == (3, 5)


def test_operators_read_from_a_standby_also_what_is_over_by_then(
    servers: tuple[PostgresServer, Standby],
) -> None:
    primary, standby = servers
    with closing(PostgresLedger(primary.conninfo(), timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100, "hour"), Limit("tokens", 900)])
        ledger.reserve("org", {"tokens": 5}, ttl=60)
        ledger.note([LedgerEvent("a", "org", {})])
        wait_until_copied(primary)
    later = psycopg.conninfo.make_conninfo(standby.conninfo(), target_session_attrs="any")
    with closing(PostgresLedger(later, timeout=PATIENCE, clock=lambda: time() + 7200)) as ledger:
        assert [(one.window, one.spent) for one in ledger.balances()] == [("hour", 0), ("run", 5)]
        assert ledger.open_holds() == []
        assert [one.kind for one in ledger.events()] == ["limits", "a"]


def test_a_standby_that_is_not_promoted_is_refused_as_one(
    servers: tuple[PostgresServer, Standby],
) -> None:
    primary, standby = servers
    with closing(PostgresLedger(primary.conninfo(), timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100)])
        wait_until_copied(primary)
    with closing(PostgresLedger(standby.conninfo(), timeout=PATIENCE)) as ledger:
        with pytest.raises(LedgerUnavailableError, match="read-only") as refused:
            ledger.reserve("org", {"tokens": 5})
        assert refused.value.applied is False
        standby.promote()
        assert until(lambda: ledger.reserve("org", {"tokens": 5})).state == "held"

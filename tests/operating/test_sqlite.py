"""The steps for an SQLite ledger, and those that are the same for every engine."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from budget_cpython import SqliteLedger, parse_limits
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.sqlite import schema
from tests.operating.support import PATIENCE, Operator
from tests.paths import ROOT

LIMITS = {"acme": "$50/month", "acme/research": "$20/month + 300 calls/month"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "budget.db"
    with SqliteLedger(path) as ledger:
        for account, limits in LIMITS.items():
            ledger.set_limits(account, parse_limits(limits))
        ledger.charge("acme/research", {"usd": "2.00", "calls": 5})
    return path


@pytest.fixture
def operator(path: Path) -> Operator:
    return Operator(path.parent, "sqlite:budget.db")


def calls(path: Path) -> int:
    """Return the calls that `acme/research` has spent."""
    with SqliteLedger(path, create=False) as ledger:
        return sum(row.spent for row in ledger.balance("acme/research") if row.axis == "calls")


def test_a_ledger_is_backed_up_in_use_and_restored(path: Path, operator: Operator) -> None:
    with SqliteLedger(path) as in_use:
        in_use.charge("acme/research", {"calls": 1})
        operator.follow("Back up SQLite")
        in_use.charge("acme/research", {"calls": 100})
    path.write_bytes(b"damaged" * 1000)
    with SqliteLedger(path) as ledger, pytest.raises(LedgerCorruptError, match=r"operating\.md"):
        ledger.reserve("acme/research", {"calls": 1})
    assert "fails    engine" in operator.run("microbudget doctor", code=1)
    assert "ok       engine" in operator.follow("Restore SQLite")
    assert calls(path) == 6
    assert path.with_name("budget.db.damaged").read_bytes() == b"damaged" * 1000


def test_what_a_restored_copy_forgot_is_charged_once(path: Path, operator: Operator) -> None:
    for _ in range(2):
        assert "acme/research" in operator.follow("After a restore")
        assert calls(path) == 45
    with SqliteLedger(path) as ledger:
        assert ledger.limits("acme") == parse_limits("$20/day")


def test_limits_move_to_another_engine(path: Path, operator: Operator) -> None:
    operator.variables["NEW_ENGINE"] = f"sqlite:{path.with_name('new.db')}"
    operator.follow("Move to another engine")
    with SqliteLedger(path.with_name("new.db"), create=False) as ledger:
        for account, limits in LIMITS.items():
            assert set(ledger.limits(account)) == set(parse_limits(limits))
    assert calls(path.with_name("new.db")) == 0


def test_a_file_of_the_release_before_is_brought_on(
    path: Path, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.unlink()
    with monkeypatch.context() as patch, closing(sqlite3.connect(path, isolation_level=None)) as db:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        schema.migrate(db, str(path))
    path.chmod(0o600)
    operator.follow("Upgrade one machine")
    assert "ok       engine" in operator.follow("Upgrade one machine", 1)
    for name, version in (("budget.db", len(schema.MIGRATIONS)), ("before-upgrade.db", 1)):
        with closing(sqlite3.connect(path.with_name(name))) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (version,)


def test_an_older_release_refuses_the_file_of_a_newer_one(path: Path, operator: Operator) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    assert "opened by a newer microbudget" in operator.run("microbudget status", code=1)


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(path: Path, operator: Operator) -> None:
    most = path.stat().st_size // 1024  # no file may be longer
    charge = "microbudget charge acme/research '1 call' --yes --key full"
    assert "recorded" not in operator.run(f"ulimit -f {most // 8}; {charge}", code=1)
    assert "ok       engine" in operator.follow("The disk was full")
    operator.run(charge)
    assert calls(path) == 6


def test_windows_that_a_wrong_clock_began_go_back(path: Path, operator: Operator) -> None:
    in_a_year = time.time() + 365 * 86_400
    with SqliteLedger(path, clock=lambda: in_a_year) as ledger:
        ledger.charge("acme/research", {"calls": 7})
    os.utime(path, (in_a_year, in_a_year))
    assert "this machine's clock went back" in operator.run("microbudget doctor")
    assert "it goes back" in operator.follow("A clock was wrong")
    with SqliteLedger(path) as ledger:
        rows = ledger.balance("acme/research")
    assert all(row.begins_at <= time.time() for row in rows)
    assert calls(path) >= 5


def test_a_ledger_that_lost_its_log_refuses_until_it_is_taken_as_it_is(
    path: Path, operator: Operator
) -> None:
    program = """
import os, sys
from budget_cpython import SqliteLedger
ledger = SqliteLedger(sys.argv[1])
ledger.charge("acme/research", {"calls": 100})
os._exit(0)  # as a crash: the log stays
"""
    command = [sys.executable, "-c", program, str(path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE)
    path.with_name("budget.db-wal").unlink()
    assert "has lost its log" in operator.run("microbudget status", code=1)
    assert "recorded" in operator.follow("The log of SQLite was lost")
    assert calls(path) == 5

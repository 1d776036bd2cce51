"""A ledger's file that goes, or becomes another, while it is open."""

import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.paths import ROOT

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        yield ledger


def spent(ledger: SqliteLedger) -> int:
    return ledger.balance("org")[0].spent


def test_a_file_that_was_removed_is_not_made_anew(ledger: SqliteLedger, path: Path) -> None:
    ledger.charge("org", ONE)
    path.rename(path.with_name("elsewhere"))
    for _ in range(2):
        with pytest.raises(LedgerCorruptError, match="was removed") as found:
            ledger.reserve("org", ONE)
        assert found.value.applied is False
    with SqliteLedger(path) as other, pytest.raises(LedgerCorruptError, match="was removed"):
        other.accounts()
    path.with_name("elsewhere").rename(path)
    ledger.charge("org", ONE)
    assert spent(ledger) == 2


def test_a_file_that_was_removed_while_it_was_only_read_is_not_made_anew(path: Path) -> None:
    with SqliteLedger(path) as first:
        first.accounts()
    with SqliteLedger(path) as reader, SqliteLedger(path) as other:
        reader.accounts()
        path.unlink()
        for one in (reader, other):
            with pytest.raises(LedgerCorruptError, match="was removed"):
                one.accounts()


def test_a_ledger_that_begins_anew_is_refused_where_the_former_is_known(
    ledger: SqliteLedger, path: Path
) -> None:
    ledger.charge("org", ONE)
    for beside in ("", "-wal", "-shm"):
        path.with_name(path.name + beside).unlink()
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.set_limits("org", [Limit("tokens", None, "day")])
        with pytest.raises(LedgerCorruptError, match="was replaced, and the log"):
            ledger.charge("org", ONE)
        assert spent(other) == 0
    with pytest.raises(LedgerCorruptError, match="is another one than before"):
        ledger.charge("org", ONE)


def test_a_file_that_was_emptied_is_not_made_anew(ledger: SqliteLedger, path: Path) -> None:
    ledger.charge("org", ONE)
    ledger.close()
    path.write_bytes(b"")
    with pytest.raises(LedgerCorruptError, match="was removed"):
        ledger.reserve("org", ONE)
    assert path.read_bytes() == b""


def test_a_file_that_is_emptied_while_it_is_open_is_refused(
    ledger: SqliteLedger, path: Path
) -> None:
    ledger.charge("org", ONE)
    whole = path.read_bytes()
    path.write_bytes(b"")
    with SqliteLedger(path) as other:
        for one in (ledger, other, ledger):
            with pytest.raises(LedgerCorruptError, match="was removed"):
                one.charge("org", ONE)
    path.write_bytes(whole)
    ledger.charge("org", ONE)
    assert spent(ledger) == 2


def test_a_log_that_is_removed_after_a_crash_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    program = """
import os, sys
from budget_cpython import Limit, SqliteLedger
ledger = SqliteLedger(sys.argv[1])
ledger.set_limits("org", [Limit("tokens", None)])
ledger.charge("org", {"tokens": 1})
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program, path], cwd=ROOT, check=True)
    log, kept = path.with_name("ledger.db-wal"), path.with_name("kept")
    log.rename(kept)
    with SqliteLedger(path) as ledger:
        for read in (ledger.accounts, ledger.expire):
            with pytest.raises(LedgerCorruptError, match="has lost its log"):
                read()
        kept.rename(log)
        assert spent(ledger) == 1


OPENS = """
import sys
from budget_cpython import SqliteLedger
for _ in range(int(sys.argv[2])):
    with SqliteLedger(sys.argv[1], timeout=600) as ledger:
        ledger.charge("org", {"tokens": 1})
"""


@pytest.mark.parametrize("times", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_processes_that_open_and_close_a_file_miss_no_log(path: Path, times: int) -> None:
    with SqliteLedger(path) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
    command = [sys.executable, "-c", OPENS, str(path), str(times)]
    started = [subprocess.Popen(command, cwd=ROOT) for _ in range(6)]
    assert [one.wait(600) for one in started] == [0] * len(started)
    with SqliteLedger(path) as ledger:
        assert spent(ledger) == times * len(started)


@pytest.mark.parametrize("how", ["renamed", "copied"])
def test_a_backup_that_takes_the_files_place_does_not_replay_its_log(
    ledger: SqliteLedger, path: Path, how: str
) -> None:
    backup = path.with_name("backup")
    ledger.charge("org", ONE)
    SqliteLedger.back_up(path, backup)
    whole = backup.read_bytes()
    ledger.charge("org", ONE)
    log = path.with_name(path.name + "-wal").read_bytes()
    ledger.close()  # as if it had been killed instead
    path.with_name(path.name + "-wal").write_bytes(log)
    if how == "renamed":
        backup.rename(path)
    else:
        path.write_bytes(whole)
    with SqliteLedger(path, clock=lambda: NOON) as other:
        for one in (ledger, other):
            with pytest.raises(LedgerCorruptError, match="the log of the one before") as found:
                one.charge("org", ONE)
            assert found.value.applied is False
        with pytest.raises(LedgerCorruptError):
            SqliteLedger.view(path)
    assert path.read_bytes() == whole


def test_a_backup_that_takes_the_place_of_an_open_file_is_refused(
    ledger: SqliteLedger, path: Path
) -> None:
    backup = path.with_name("backup")
    ledger.charge("org", ONE)
    with closing(SqliteLedger.view(path)) as view, closing(sqlite3.connect(backup)) as copy:
        view.backup(copy)  # with any tool
    whole = backup.read_bytes()
    ledger.charge("org", ONE)
    backup.rename(path)
    with pytest.raises(LedgerCorruptError, match="the log of the one before"):
        ledger.charge("org", ONE)
    ledger.close()
    assert path.read_bytes() == whole


def test_a_backup_is_a_new_file_for_its_owner_alone(ledger: SqliteLedger, path: Path) -> None:
    backup = path.with_name("backup")
    SqliteLedger.back_up(path, backup)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    for missing in (path, path.with_name("none.db")):
        with pytest.raises(LedgerUnavailableError):
            SqliteLedger.back_up(missing, backup)


def test_a_backup_that_fails_leaves_no_file(path: Path) -> None:
    copy = path.with_name("copy.db")
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError, match="ledger"):
            SqliteLedger.back_up(path, copy)
        assert not copy.exists()


def test_a_ledger_is_restored_as_the_page_says(ledger: SqliteLedger, path: Path) -> None:
    ledger.charge("org", ONE)
    SqliteLedger.back_up(path, path.with_name("budget-backup.db"))
    ledger.charge("org", ONE)
    path.write_bytes(b"damaged" * 1000)
    with SqliteLedger(path, clock=lambda: NOON) as other, pytest.raises(LedgerCorruptError):
        other.reserve("org", ONE)
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    commands = page[page.index("mv budget.db") :].partition("microbudget")[0]
    commands = commands.replace("budget.db", path.name)
    subprocess.run(["/bin/sh", "-c", commands], check=True, cwd=path.parent)
    assert spent(ledger) == 1  # the same ledger, for a program that was not stopped too
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.charge("org", ONE)
        assert spent(other) == spent(ledger) == 2
    assert path.with_name(path.name + ".damaged").read_bytes() == b"damaged" * 1000
    ledger.close()
    assert spent(ledger) == 2  # the log that comes now belongs to this file


def test_a_schema_that_another_program_brings_on_is_refused_at_once(
    ledger: SqliteLedger, path: Path
) -> None:
    ledger.charge("org", ONE)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 99")
        with pytest.raises(LedgerUnavailableError, match="schema version 99"):
            ledger.charge("org", ONE)
        db.execute("PRAGMA user_version = 3")
    assert spent(ledger) == 1


def test_a_view_of_an_empty_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(LedgerUnavailableError, match="no ledger in"):
        SqliteLedger.view(path)
    assert path.read_bytes() == b""

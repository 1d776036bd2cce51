"""What operators read of a ledger in a file."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.memory import Ledger
from budget_core.wall_clock import DAY
from budget_cpython import Limit, SqliteLedger
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.journal import KEEP_EVENTS_S, HourOfUsage, LedgerEvent
from budget_cpython.ledger.sqlite import loaded_journal, schema

NOON = 20_000 * DAY + 43_200
HOUR = NOON - NOON % 3600
HOLD_COLUMNS = "number, name, path, amounts, buckets, state, expires, actual, due, crc"


class Clock:
    now = NOON

    def __call__(self) -> int:
        return self.now


def make_first_version(path: Path, source: Path) -> None:
    """Make a file as the first version had it, with the accounts and holds of another one."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(schema.MIGRATIONS[0])
        db.execute("ATTACH ? AS source", (str(source),))
        db.execute("UPDATE ledger SET (id, inode) = ('0123', ?)", (str(path.stat().st_ino),))
        db.execute("UPDATE totals SET (accounts, crc) = (SELECT accounts, crc FROM source.totals)")
        db.execute("INSERT INTO buckets SELECT * FROM source.buckets")
        db.execute(f"INSERT INTO holds SELECT {HOLD_COLUMNS} FROM source.holds")  # noqa: S608
        db.execute(f"PRAGMA application_id = {schema.APPLICATION}")
        db.execute("PRAGMA user_version = 1")
        db.execute("PRAGMA journal_mode = WAL")


def test_a_file_of_the_first_version_is_brought_on_while_another_program_reads_it(
    tmp_path: Path, path: Path
) -> None:
    with SqliteLedger(tmp_path / "new.db", clock=Clock()) as ledger:
        ledger.set_limits("org", [Limit("calls", 9)])
        ledger.reserve("org", {"calls": 2}, "old")
    make_first_version(path, tmp_path / "new.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        older.execute("BEGIN")
        assert older.execute("SELECT count(*) FROM holds").fetchone() == (1,)
        with SqliteLedger(path, clock=Clock()) as ledger:
            new = ledger.reserve("org", {"calls": 1})
            found = [(one.id, one.taken_at) for one in ledger.open_holds()]
            assert found == [("old", 0), (new.id, NOON)]
            assert [one.held for one in ledger.balances()] == [3]
            assert ledger.note([LedgerEvent("limits", "org", {})]) == [1]
        older.execute("COMMIT")
        assert older.execute("PRAGMA user_version").fetchone() == (3,)


def test_a_view_and_a_backup_of_the_first_version_leave_it_as_it_is(
    tmp_path: Path, path: Path
) -> None:
    with SqliteLedger(tmp_path / "new.db", clock=Clock()) as ledger:
        ledger.set_limits("org", [Limit("calls", 9)])
    make_first_version(path, tmp_path / "new.db")
    with closing(SqliteLedger.view(path)) as view:
        assert view.execute("SELECT account, cap FROM balances").fetchall() == [("org", 9)]
        assert view.execute("PRAGMA user_version").fetchone() == (1,)
    SqliteLedger.back_up(path, tmp_path / "copy.db")
    with SqliteLedger(tmp_path / "copy.db", clock=Clock()) as ledger:
        assert [one.limit for one in ledger.balances()] == [9]


@pytest.mark.parametrize("window", ["run", "hour", "day", "rolling 7200/2", "week@5"])
@pytest.mark.parametrize("later", [0, 1800, 3600, 7200, 3 * DAY])
def test_balances_are_those_of_each_account_whatever_windows_are_over(
    path: Path, window: str, later: int
) -> None:
    clock = Clock()
    limits = [Limit("calls", 100, window), Limit("tokens", None)]
    with SqliteLedger(path, clock=clock) as ledger:
        memory = Ledger(clock)
        for one in (ledger, memory):
            one.set_limits("a", limits)
            one.set_limits("a/b", limits)
        for turn in range(3):
            for one in (ledger, memory):
                one.charge("a/b", {"calls": 2 + turn, "tokens": 9})
                one.reserve("a/b/c", {"calls": 1}, ttl=DAY)
            clock.now += 3000
        clock.now += later
        expected = [repr(one) for one in memory.balance("a/b")]
        found = ledger.balances()
        assert [repr(one) for one in found] == expected
        assert [(one.begins_at, one.resets_at) for one in found] == [
            (one.begins_at, one.resets_at) for one in memory.balance("a/b")
        ]
        assert [repr(one) for one in ledger.balance("a/b")] == expected
        assert [repr(one) for one in ledger.balances()] == expected


def test_reading_all_balances_begins_no_window(path: Path) -> None:
    clock = Clock()
    with SqliteLedger(path, clock=clock) as ledger:
        ledger.set_limits("org", [Limit("calls", 9, "hour")])
        ledger.charge("org", {"calls": 2})
        clock.now += 7200
        assert [one.spent for one in ledger.balances()] == [0]
        with closing(SqliteLedger.view(path)) as view:
            assert view.execute("SELECT spent FROM balances").fetchall() == [(2,)]


def test_open_holds_are_told_without_those_that_are_over(path: Path) -> None:
    clock = Clock()
    with SqliteLedger(path, clock=clock) as ledger:
        ledger.set_limits("org", [Limit("calls", 9)])
        ledger.reserve("org/a", {"calls": 1}, "short", ttl=10)
        clock.now += 1
        ledger.reserve("org/a", {"calls": 1}, "long", ttl=60)
        ledger.reserve("org/b", {"calls": 1}, "other", ttl=60)
        assert [one.id for one in ledger.open_holds()] == ["short", "long", "other"]
        assert [one.id for one in ledger.open_holds("org/a", 1)] == ["short"]
        clock.now += 10
        assert [one.id for one in ledger.open_holds("org/a")] == ["long"]


def test_old_events_go_a_few_at_a_time_and_numbers_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_journal, "MOST_EVENTS", 10)
    clock = Clock()
    with SqliteLedger(path, clock=clock) as ledger:
        events = [LedgerEvent("refused", "org", {"n": n}, f"n/{n}") for n in range(40)]
        assert ledger.note(events) == list(range(1, 41))
        assert [one.number for one in ledger.events()] == list(range(31, 41))
        assert ledger.note([events[39], events[0]]) == [0, 41]
        clock.now += KEEP_EVENTS_S
        assert ledger.note([LedgerEvent("limits", "org", {})]) == [42]
        assert [one.number for one in ledger.events()] == [42]


def test_usage_is_kept_for_four_hundred_days(path: Path) -> None:
    row = HourOfUsage(HOUR, "org", "small", "", {"calls": 1})
    clock = Clock()
    clock.now = HOUR + 400 * DAY
    with SqliteLedger(path, clock=clock) as ledger:
        ledger.add_usage([row, row._replace(hour=HOUR + 399 * DAY)])
        assert len(ledger.usage()) == 2
        ledger.add_usage([row._replace(hour=HOUR + 400 * DAY)])
        assert [one.hour for one in ledger.usage()] == [HOUR + 399 * DAY, HOUR + 400 * DAY]


def test_a_damaged_row_is_no_answer(path: Path) -> None:
    with SqliteLedger(path, clock=Clock()) as ledger:
        ledger.set_limits("org", [Limit("calls", 9)])
        ledger.note([LedgerEvent("limits", "org", {})])
        ledger.reserve("org", {"calls": 1})
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE events SET details = '{'")
        db.execute("UPDATE buckets SET spent = 7")
        db.execute("UPDATE holds SET expires = expires + 1000")
    with SqliteLedger(path, clock=Clock()) as ledger:
        for read in (ledger.events, ledger.balances, ledger.open_holds):
            with pytest.raises(LedgerCorruptError):
                read()

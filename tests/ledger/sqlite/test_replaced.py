"""A ledger's file that goes, or becomes another, while it is open."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerUnavailableError, UnknownAccountError
from budget_core.ledger.limit import Limit
from budget_core.ledger.records import Hold
from budget_core.ledger.window import Window, parse_window
from budget_cpython.ledger.sqlite import SqliteLedger

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[SqliteLedger]:
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        yield ledger


def spent(ledger: SqliteLedger) -> int:
    return ledger.balance("org")[0].spent


def test_a_file_that_was_removed_is_made_anew_for_all(ledger: SqliteLedger, path: Path) -> None:
    ledger.charge("org", ONE)
    path.unlink()
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.set_limits("org", [Limit("tokens", None, "day")])
        ledger.charge("org", {"tokens": 7})
        assert spent(other) == spent(ledger) == 7
    path.unlink()
    with pytest.raises(UnknownAccountError):
        ledger.charge("org", ONE)


def test_a_backup_in_the_files_place_is_refused_until_the_log_is_gone_too(
    ledger: SqliteLedger, path: Path
) -> None:
    log, backup = path.with_name("ledger.db-wal"), path.with_name("backup")
    ledger.charge("org", ONE)
    ledger.close()
    shutil.copy(path, backup)
    ledger.charge("org", ONE)
    backup.rename(path)
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError, match=r"remove .*ledger\.db-wal") as found:
            ledger.charge("org", ONE)
        assert found.value.applied is False
    log.unlink()
    ledger.charge("org", {"tokens": 7})
    with SqliteLedger(path, clock=lambda: NOON) as other:
        assert spent(other) == spent(ledger) == 8
        ledger.close()
        ledger.charge("org", ONE)
        assert spent(other) == 9


def test_a_schema_that_another_program_brings_on_is_refused_at_once(
    ledger: SqliteLedger, path: Path
) -> None:
    ledger.charge("org", ONE)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 99")
        with pytest.raises(LedgerUnavailableError, match="schema version 99"):
            ledger.charge("org", ONE)
        db.execute("PRAGMA user_version = 1")
    assert spent(ledger) == 1


def test_a_view_of_an_empty_file_is_refused(path: Path) -> None:
    path.touch()
    with pytest.raises(LedgerUnavailableError, match="no ledger in"):
        SqliteLedger.view(path)
    assert path.read_bytes() == b""


def test_limits_that_cannot_be_set_change_nothing(path: Path) -> None:
    asked: list[int] = []

    def bounds(now: int) -> tuple[int, int]:
        asked.append(now)
        if len(asked) == 2:
            raise ValueError("no such day")
        return 0, now + 1

    def read(name: str) -> Window:
        return Window("odd", bounds) if name == "odd" else parse_window(name)

    with SqliteLedger(path, clock=lambda: NOON, windows=read) as ledger:
        ledger.set_limits("org", [Limit("calls", 5, "day")])
        ledger.charge("org", {"calls": 1})
        with pytest.raises(ValueError, match="no such day"):
            ledger.set_limits("org", [Limit("calls", 99, "day"), Limit("tokens", 9, "odd")])
        assert ledger.limits("org") == [Limit("calls", 5, "day")]


@pytest.mark.parametrize("name", ["", "a key", "k" * 201])
@pytest.mark.parametrize(
    "use",
    [
        lambda ledger, name: ledger.hold("org", name),
        lambda ledger, name: ledger.commit(Hold("org", name)),
        lambda ledger, name: ledger.extend(Hold("org", name)),
    ],
)
def test_a_malformed_id_is_refused(
    ledger: SqliteLedger, use: Callable[[SqliteLedger, str], object], name: str
) -> None:
    with pytest.raises(ValueError, match="key must be"):
        use(ledger, name)

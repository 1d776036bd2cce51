"""When a ledger's file cannot be used: a typed error, nothing granted, and on again after."""

import os
import resource
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.forked import in_child
from tests.ledger.sqlite.watch import Watch

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}
MOST = 1 << 30


@pytest.fixture
def ledger(path: Path, watch: Watch) -> Iterator[SqliteLedger]:
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        yield ledger


def stored(path: Path) -> tuple[int, int]:
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        (found,) = ledger.balance("org")
        return found.spent, found.held


def until_it_fails(ledger: SqliteLedger, first: int = 0) -> tuple[int, LedgerError]:
    """Reserve and commit under one key after another; return the number of the one that failed."""
    for number in range(first, 100_000):
        try:
            ledger.commit(ledger.reserve("org", ONE, key=f"key-{number}"), ONE)
        except LedgerError as error:
            return number, error
    raise AssertionError("nothing failed")


def test_a_full_disk_denies_and_goes_on_when_there_is_room(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    ledger.charge("org", ONE)
    db = watch.db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + 3}")
    count, error = until_it_fails(ledger)
    assert isinstance(error, LedgerFullError)
    assert "full" in str(error)
    assert count > 10
    assert ledger.balance("org")[0].spent == 1 + count
    with pytest.raises(LedgerFullError):
        ledger.charge("org", ONE, key="another")
    assert sum(stored(path)) == sum((ledger.balance("org")[0].spent, ledger.balance("org")[0].held))
    db.execute(f"PRAGMA max_page_count = {MOST}")
    ledger.commit(ledger.reserve("org", ONE, key=f"key-{count}"), ONE)
    assert stored(path) == (2 + count, 0)


def test_a_file_that_may_not_grow_denies_and_goes_on_later(
    ledger: SqliteLedger, path: Path
) -> None:
    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, -1))
        count, error = until_it_fails(ledger)
        assert count > 1
        assert isinstance(error, (LedgerFullError, LedgerUnavailableError))
        assert isinstance(error, LedgerFullError) or error.applied is None
        resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        (found,) = ledger.balance("org")
        assert count <= found.spent + found.held <= count + 1
        ledger.commit(ledger.reserve("org", ONE, key=f"key-{count}"), ONE)
        assert stored(path) == (count + 1, 0)

    assert in_child(fill) == 0


def test_an_operation_that_waits_too_long_for_another_process_is_denied(
    ledger: SqliteLedger, path: Path
) -> None:
    with (
        SqliteLedger(path, clock=lambda: NOON, timeout=0.05) as hasty,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailableError, match=r"was locked for 0\.05 s") as found:
            hasty.reserve("org", ONE)
        assert found.value.applied is False
        other.execute("ROLLBACK")
        hasty.charge("org", ONE)
    assert stored(path) == (1, 0)


@pytest.mark.parametrize(
    "content", [b"not a database " * 500, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_another_kind_of_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    ledger = SqliteLedger(path, clock=lambda: NOON)
    for use in (ledger.accounts, lambda: SqliteLedger.view(path)):
        with pytest.raises(LedgerUnavailableError):
            use()
    assert path.read_bytes() == content
    path.unlink()
    assert ledger.accounts() == []
    ledger.close()


def test_a_damaged_file_denies(ledger: SqliteLedger, path: Path) -> None:
    for number in range(200):
        ledger.charge("org", ONE, key=f"key-{number}")
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError) as found:
            ledger.reserve("org", ONE)
        assert found.value.applied is False
        assert isinstance(found.value.cause, sqlite3.DatabaseError)
    path.write_bytes(whole)
    ledger.charge("org", ONE)
    assert stored(path) == (201, 0)


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        (b"buckets_current ON", b"buckets_current \xe4N"),
        (b"org/key-1", b"org/key\xe41"),
        (b'{"tokens": 1}', b'{"tokens": x}'),
    ],
)
def test_damaged_text_denies(ledger: SqliteLedger, path: Path, text: bytes, damaged: bytes) -> None:
    ledger.reserve("org", ONE, key="key-1", ttl=1)
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(text, damaged))
    with SqliteLedger(path, clock=lambda: NOON + 2) as later:
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError) as found:
                later.balance("org")
            assert found.value.applied is False
        path.write_bytes(whole)
        assert later.balance("org")[0].spent == 1


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A ledger of a user who is not root, to whom file modes apply."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - others pass through
        home = Path(folder) / "home"
        home.mkdir()
        with SqliteLedger(home / "ledger.db", clock=lambda: NOON) as ledger:
            ledger.set_limits("org", [Limit("tokens", None, "day")])
            ledger.charge("org", ONE)
        if not os.getuid():
            for found in (home, home / "ledger.db"):
                os.chown(found, 65534, 65534)
        yield home / "ledger.db"


def without_privileges(action: Callable[[], None]) -> None:
    def act() -> None:
        if not os.getuid():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        action()

    assert in_child(act) == 0


@pytest.mark.parametrize(
    ("what", "mode", "opened"),
    [("file", 0o400, False), ("folder", 0o500, False), ("folder", 0, False), ("folder", 0, True)],
)
def test_a_place_that_may_not_be_written_denies_and_goes_on_later(
    unprivileged: Path, what: str, mode: int, opened: bool
) -> None:
    place = unprivileged if what == "file" else unprivileged.parent
    before = place.stat().st_mode

    def use() -> None:
        ledger = SqliteLedger(unprivileged, clock=lambda: NOON)
        if opened:
            ledger.accounts()
        os.chmod(place, mode)
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError) as found:
                ledger.charge("org", ONE)
            assert found.value.applied is False
        os.chmod(place, before)
        ledger.charge("org", ONE)
        assert ledger.balance("org")[0].spent == 2

    without_privileges(use)

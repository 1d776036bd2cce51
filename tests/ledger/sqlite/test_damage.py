"""Any bit of a ledger's file that flips: the right answers, or `LedgerCorruptError`."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.errors import BudgetError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.machine import comparable

NOON = 20_000 * 86_400 + 43_200
FLIPS = 60


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """Return the bytes of a ledger with all that one can hold."""
    now = [NOON - 7200]
    with SqliteLedger(tmp_path / "whole.db", clock=lambda: now[0]) as ledger:
        ledger.set_limits("org", [Limit("tokens", 1000, "day"), Limit("calls", None)])
        ledger.set_limits("org/a", [Limit("tokens", 500, "rolling 14400/4")])
        ledger.set_limits("org/b", [Limit("tokens", 100, "hour")])
        for number in range(30):
            hold = ledger.reserve("org/a", {"tokens": 9, "calls": 1}, key=f"call-{number}")
            ledger.commit(hold, {"tokens": number % 5})
            ledger.charge("org/b", {"tokens": 1})
            now[0] += 240
        ledger.reserve("org/a", {"tokens": 20}, key="live", ttl=900)
        ledger.reserve("org/b", {"tokens": 30}, key="over", ttl=1)
    return (tmp_path / "whole.db").read_bytes()


def steps(ledger: SqliteLedger) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [(ledger.accounts,)]
    for path in ("org", "org/a", "org/b"):
        found += [(ledger.limits, path), (ledger.balance, path), (ledger.history, path)]
    return [
        *found,
        (ledger.hold, "org/a", "live"),
        (ledger.reserve, "org/a", {"tokens": 9, "calls": 1}, "call-7"),
        (ledger.reserve, "org/a", {"tokens": 100}, "new"),
        (ledger.reserve, "org/b", {"tokens": 100}),
        (ledger.charge, "org/b", {"tokens": 3}),
        (ledger.commit, Hold("org/a", "live"), {"tokens": 21}),
        (ledger.commit, Hold("org/b", "over"), {"tokens": 1}),
        (ledger.set_limits, "org/c", [Limit("tokens", 5)]),
        (ledger.expire,),
        (ledger.balance, "org/b"),
    ]


def answers(path: Path) -> list[Any]:
    """Return what the steps give, as long as the file can be trusted."""
    found: list[Any] = []
    with SqliteLedger(path, clock=lambda: NOON + 60) as ledger:
        for step, *arguments in steps(ledger):
            try:
                found.append(comparable(step(*arguments)))
            except LedgerCorruptError:
                break
            except BudgetError as error:
                found.append({**comparable(error), "key": ""})
    return found


def write(path: Path, content: bytes | bytearray) -> None:
    """Write a file that no ledger was in."""
    for beside in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    path.write_bytes(content)


def survey(folder: Path, whole: bytes, offsets: list[tuple[int, int]]) -> tuple[int, int]:
    """Flip bits one at a time; return how often all was right, and how often damage was found."""
    path = folder / "ledger.db"
    write(path, whole)
    expected = answers(path)
    assert len(expected) == len(steps(SqliteLedger(path)))
    right = 0
    for offset, bit in offsets:
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << bit
        write(path, damaged)
        found = answers(path)
        assert found == expected[: len(found)], f"bit {bit} of byte {offset}"
        right += len(found) == len(expected)
    return right, len(offsets) - right


def test_a_bit_that_flips_is_found_or_changes_no_answer(tmp_path: Path, whole: bytes) -> None:
    chosen = random.Random(14)  # noqa: S311 - offsets, not secrets
    offsets = [(chosen.randrange(len(whole)), chosen.randrange(8)) for _ in range(FLIPS)]
    right, found = survey(tmp_path, whole, offsets)
    assert right + found == FLIPS
    assert found


@pytest.mark.slow
def test_any_of_many_bits_that_flip_is_found_or_changes_no_answer(
    tmp_path: Path, whole: bytes
) -> None:
    chosen = random.Random(41)  # noqa: S311 - offsets, not secrets
    offsets = [(chosen.randrange(len(whole)), chosen.randrange(8)) for _ in range(1500)]
    offsets += [(offset, bit) for offset in range(100) for bit in (0, 6)]
    survey(tmp_path, whole, offsets)


def test_a_bit_that_flips_in_the_log_of_a_crash_is_found_or_changes_no_answer(
    tmp_path: Path, whole: bytes
) -> None:
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    write(path, whole)
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        for number in range(20):
            ledger.charge("org/a", {"tokens": 1}, key=f"more-{number}")
        ledger.charge("org", {})  # the last commit, which a crash may tear, changes no answer
        file, logged = path.read_bytes(), log.read_bytes()

    def crash(damaged: bytes | bytearray) -> list[Any]:
        path.write_bytes(file)  # in place: it stays the file of this log
        log.write_bytes(damaged)
        path.with_name("ledger.db-shm").unlink(missing_ok=True)
        return answers(path)

    expected = crash(logged)
    assert len(expected) == len(steps(ledger))
    chosen, found = random.Random(3), 0  # noqa: S311 - offsets, not secrets
    offsets = [(offset, 3) for offset in range(0, 100, 4)]
    offsets += [(chosen.randrange(len(logged)), chosen.randrange(8)) for _ in range(FLIPS)]
    for offset, bit in offsets:
        damaged = bytearray(logged)
        damaged[offset] ^= 1 << bit
        given = crash(damaged)
        assert given == expected[: len(given)], f"bit {bit} of byte {offset}"
        found += len(given) < len(expected)
    assert found > FLIPS


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("buckets", "spent = spent - 1"),
        ("buckets", "held = 0"),
        ("buckets", "cap = NULL"),
        ("buckets", "cap = cap + 1"),
        ("buckets", "ends = ends - 1"),
        ("holds", "actual = NULL"),
        ("holds", "expires = expires + 1000"),
        ("holds", "amounts = '{\"tokens\": 8}'"),
        ("totals", "accounts = 0"),
    ],
)
def test_a_value_that_was_changed_is_found(
    tmp_path: Path, whole: bytes, table: str, change: str
) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(whole)
    expected = answers(path)
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE {table} SET {change}")  # noqa: S608 - of this test
    found = answers(path)
    assert len(found) < len(expected)
    assert found == expected[: len(found)]


@pytest.mark.parametrize("table", ["ledger", "totals", "durability"])
def test_a_row_that_every_file_has_is_missed(tmp_path: Path, whole: bytes, table: str) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"DELETE FROM {table}")  # noqa: S608 - of this test
    with (
        SqliteLedger(path, durability="settle") as ledger,
        pytest.raises(LedgerCorruptError, match="is damaged"),
    ):
        ledger.set_limits("another", [Limit("tokens", 1)])

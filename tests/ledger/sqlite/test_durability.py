"""What is synced to the disk, and what a loss of power may undo."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import UnknownHoldError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython import open_ledger
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.sqlite.watch import NOON, ONE, Watch
from tests.paths import ROOT

FULL, NORMAL = 2, 1  # of SQLite's PRAGMA synchronous


def open_at(path: Path, durability: str) -> SqliteLedger:
    return SqliteLedger(path, clock=lambda: NOON, durability=durability)


def syncs(watch: Watch, act: Callable[[], Any]) -> list[int]:
    """Return how each commit of an action is synced."""
    found: list[int] = []

    def look(statement: str, _: Any) -> None:
        if statement == "COMMIT":
            found.extend(*watch.db.execute("PRAGMA synchronous"))

    watch.before = look
    act()
    watch.before = lambda statement, values: None
    return found


@pytest.mark.parametrize(("durability", "of_holds"), [("full", FULL), ("settle", NORMAL)])
def test_settlements_are_synced_and_holds_unless_that_is_not_wanted(
    path: Path, watch: Watch, durability: str, of_holds: int
) -> None:
    with open_at(path, durability) as ledger:
        ledger.accounts()  # opens the file
        assert syncs(watch, lambda: ledger.set_limits("org", [Limit("tokens", None)])) == [FULL]
        for _ in range(2):
            assert syncs(watch, lambda: ledger.reserve("org", ONE, "a")) == [of_holds]
            assert syncs(watch, lambda: ledger.extend(Hold("org", "a"), 600)) == [of_holds]
        assert syncs(watch, lambda: ledger.renew(Hold("org", "a"), ONE, ONE, "b")) == [FULL]
        ledger.reserve("org", ONE, "c")
        assert syncs(watch, lambda: ledger.commit(Hold("org", "b"))) == [FULL]
        ledger.reserve("org", ONE, "d")
        assert syncs(watch, lambda: ledger.release(Hold("org", "c"))) == [FULL]
        ledger.reserve("org", ONE, "e")
        assert syncs(watch, lambda: ledger.charge("org", ONE)) == [FULL]
        together = [("reserve", ("org", ONE, "f")), ("commit", (Hold("org", "d"),))]
        assert syncs(watch, lambda: ledger.do_together(together)) == [FULL]
        assert syncs(watch, lambda: ledger.do_together(together[:1])) == [of_holds]


PROGRAM = """
import sys
from budget_cpython import Limit, SqliteLedger
with SqliteLedger(sys.argv[1], durability=sys.argv[2]) as ledger:
    ledger.set_limits("org", [Limit("tokens", None)])
    for _ in range(int(sys.argv[3])):
        ledger.commit(ledger.reserve("org", {"tokens": 1}))
"""


def system_calls(path: Path, durability: str, calls: int) -> int:
    """Return how often a program syncs a file that makes so many calls."""
    program = [sys.executable, "-c", PROGRAM, str(path), durability, str(calls)]
    traced = ["strace", "-f", "-e", "trace=fsync,fdatasync", *program]
    done = subprocess.run(traced, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("strace may not trace here")
    return done.stderr.count("sync(")


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_a_call_takes_one_sync_in_the_place_of_two(tmp_path: Path) -> None:
    for durability, each in (("full", 2), ("settle", 1)):
        few, many = (
            system_calls(tmp_path / f"{durability}-{n}.db", durability, n) for n in (2, 12)
        )
        assert many - few == 10 * each


class PowerLoss:
    """The files of a ledger as its disk surely has them: as they were at its last synced commit."""

    def __init__(self, path: Path, watch: Watch) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._watch = watch
        watch.after = self._look

    def _look(self, statement: str, _: Any) -> None:
        if statement == "COMMIT":
            self._watch.after = lambda statement, values: None
            ((how,),) = self._watch.db.execute("PRAGMA synchronous")
            self._watch.after = self._look
            if how == FULL:
                self._file, self._synced = self._path.read_bytes(), self._log.read_bytes()

    def strike(self, ledger: SqliteLedger, torn: bool) -> None:
        """Close a ledger and put what the disk had in its place.

        What was not synced is missing, or, if it is `torn`, there but for its first page.
        """
        log = bytearray(self._log.read_bytes() if torn else self._synced)
        log[len(self._synced) + 99 : len(self._synced) + 100] = b"!" * torn
        ledger.close()
        self._path.write_bytes(self._file)  # in place: it stays the file of this log
        self._log.write_bytes(log)


@pytest.mark.parametrize("torn", [False, True])
def test_a_loss_of_power_undoes_no_settlement_but_the_holds_after_it(
    path: Path, watch: Watch, torn: bool
) -> None:
    ledger = open_at(path, "settle")
    ledger.accounts()  # opens the file
    power = PowerLoss(path, watch)
    ledger.set_limits("org", [Limit("tokens", 100)])
    for key in ("before", "settled"):
        ledger.reserve("org", ONE, key)
    ledger.commit(Hold("org", "settled"), {"tokens": 7})
    for key in ("after-1", "after-2", "after-3"):
        ledger.reserve("org", ONE, key)
    power.strike(ledger, torn)
    with open_at(path, "full") as later:
        (found,) = later.balance("org")
        assert (found.spent, found.held) == (7, 1)
        assert later.hold("org", "settled").state == "committed"
        assert later.commit(Hold("org", "before")).state == "committed"
        with pytest.raises(UnknownHoldError):
            later.commit(Hold("org", "after-1"), {"tokens": 5})
        assert later.reserve("org", {"tokens": 2}, "after-1").state == "held"  # the key is free


def test_with_all_synced_the_same_loss_is_damage(path: Path, watch: Watch) -> None:
    ledger = open_at(path, "full")
    ledger.accounts()  # opens the file
    power = PowerLoss(path, watch)
    ledger.set_limits("org", [Limit("tokens", 100)])
    watch.after = lambda statement, values: None  # what follows it did not see
    for key in ("after-1", "after-2", "after-3"):
        ledger.reserve("org", ONE, key)
    power.strike(ledger, True)
    with (
        open_at(path, "settle") as later,
        pytest.raises(LedgerCorruptError, match="commits in its"),
    ):
        later.balance("org")


def test_a_file_says_that_holds_were_not_synced(path: Path) -> None:
    def unsynced() -> Any:
        with closing(SqliteLedger.view(path)) as view:
            return view.execute("SELECT unsynced FROM durability").fetchall()

    for durability, expected in (("full", 0), ("settle", 1), ("full", 1)):
        with open_at(path, durability) as ledger:
            ledger.accounts()
        assert unsynced() == [(expected,)]


def test_a_url_takes_the_option_and_another_word_is_refused(path: Path, watch: Watch) -> None:
    with closing(open_ledger(f"sqlite:{path}", durability="settle")) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        assert syncs(watch, lambda: ledger.reserve("org", ONE)) == [NORMAL]
    with pytest.raises(ValueError, match="durability must be 'full' or 'settle'"):
        open_at(path, "none")

"""Threads, processes and SIGKILLs on one ledger's file; and rows that do not pile up."""

import asyncio
from pathlib import Path

import pytest

from budget_core.ledger.errors import UnknownHoldError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython import BudgetWrapper
from budget_cpython.ledger.sqlite import SqliteLedger, loaded_ledger
from budget_cpython.ledger.sqlite.loaded_ledger import SWEEP_EVERY
from tests.in_memory import MEMORY
from tests.ledger.sqlite import kills as ledger_kills
from tests.ledger.sqlite.watch import Watch
from tests_micro.script import Script, says

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}
HOUR = 3600


@pytest.mark.parametrize("durability", ["full", "settle"])
@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_in_the_midst_of_writes_lose_and_break_nothing(
    kills: int, durability: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ledger_kills.run(kills=kills, seed=0, folder=MEMORY, durability=durability) == 0
    assert ", 0 broken" in capsys.readouterr().out


def test_a_campaign_notices_a_ledger_that_acknowledges_before_it_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Late(SqliteLedger):
        waiting = 0

        def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
            self.waiting += 1
            while self.waiting > 4 * ledger_kills.THREADS:
                self.waiting -= 1
                super().charge(path, amounts, key)
            return Hold(path, "#")

    monkeypatch.setattr(ledger_kills, "SqliteLedger", Late)
    assert ledger_kills.run(kills=400, seed=0, folder=MEMORY) == 1
    assert "with --seed 0: acknowledged" in capsys.readouterr().out


def rows(ledger: SqliteLedger) -> int:
    with SqliteLedger.view(ledger.path) as view:
        (count,) = view.execute("SELECT count(*) FROM holds").fetchone()
    view.close()
    return int(count)


def test_settled_holds_are_known_for_their_time_and_then_removed(
    tmp_path: Path,
) -> None:
    now = NOON
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now, keep=HOUR) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        held = ledger.reserve("org", ONE, ttl=86_400)
        holds = [ledger.charge("org", ONE, key=f"key-{number}") for number in range(200)]
        unkeyed = ledger.commit(ledger.reserve("org", ONE))
        now += HOUR - 1
        assert ledger.hold("org", "key-7").state == ledger.hold("org", unkeyed.id).state
        now += 1
        for hold in (holds[7], unkeyed):
            with pytest.raises(UnknownHoldError):
                ledger.commit(hold)
        assert ledger.charge("org", ONE, key="key-7").state == "committed"  # the key is free
        for _ in range(2 * SWEEP_EVERY):
            ledger.charge("org", ONE)
        assert rows(ledger) == 1 + 1 + 2 * SWEEP_EVERY
        now += HOUR
        assert ledger.expire() == 0
        assert rows(ledger) == 1
        assert ledger.commit(held).state == "committed"


def test_what_was_settled_without_a_date_is_kept_from_when_there_is_one(tmp_path: Path) -> None:
    now = 0
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now, keep=HOUR) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        ledger.charge("org", ONE, key="k")
        now = NOON
        ledger.expire()
        assert ledger.hold("org", "k").state == "committed"
        now += HOUR
        ledger.expire()
        assert rows(ledger) == 0


def test_holds_are_found_when_they_are_over_however_many_came_after_them(tmp_path: Path) -> None:
    now = NOON
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        kinds = ((None, 60), (None, 120), ("a", 60), ("b", 120))
        held = [ledger.reserve("org", ONE, key, ttl) for key, ttl in kinds]
        for _ in range(100):
            ledger.charge("org", ONE)
        assert ledger.expire() == 0
        young = ledger.reserve("org", ONE, ttl=60)
        ledger.extend(held[0], 90)
        ledger.commit(held[3])
        now += 60
        assert ledger.balance("org")[0].held == 2
        assert ledger.hold("org", young.id).state == ledger.hold("org", held[2].id).state
        now += 30
        assert ledger.balance("org")[0].held == 1
        assert ledger.commit(held[0], {"tokens": 0}).state == "committed"
        now += 30
        assert ledger.expire() == 1
        states = [ledger.hold("org", one.id).state for one in held]
        assert states == ["committed", "expired", "expired", "committed"]
        (found,) = ledger.balance("org")
        assert (found.spent, found.held) == (100 + 4, 0)


def test_short_programs_too_remove_settled_holds_beside_live_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_ledger, "SWEEP_EVERY", 8)
    monkeypatch.setattr(loaded_ledger, "SWEPT", 32)
    now, held = NOON, 40

    def clock() -> float:
        return now

    with SqliteLedger(tmp_path / "ledger.db", clock=clock, keep=60) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        for _ in range(held):
            ledger.reserve("org", ONE, ttl=86_400)
    for _ in range(30):
        now += 60
        with SqliteLedger(tmp_path / "ledger.db", clock=clock, keep=60) as ledger:
            for _ in range(4):
                ledger.charge("org", ONE)
    assert rows(ledger) <= held + 2 * 8


def test_a_key_that_is_free_again_leaves_nothing_behind(tmp_path: Path) -> None:
    now = NOON
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now, keep=60) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        ledger.charge("org", ONE, key="k")
        now += 60
        ledger.charge("org", {"tokens": 2}, key="k")
        now -= 60
        with pytest.raises(UnknownHoldError):
            ledger.hold("org", "#-1")
        assert ledger.hold("org", "k").amounts == {"tokens": 2}


def test_a_balance_counts_any_number_of_holds_that_are_over(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_ledger, "STEP", 10)
    now = NOON
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        for _ in range(25):
            ledger.reserve("org", ONE, ttl=60)
        now += 60
        (found,) = ledger.balance("org")
        assert (found.spent, found.held) == (25, 0)
        before = watch.db.total_changes
        assert ledger.balance("org")[0].spent == 25
        assert watch.db.total_changes == before


def test_no_id_comes_twice_and_only_a_whole_id_is_one(tmp_path: Path) -> None:
    now = NOON
    seen: set[str] = set()
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now, keep=60) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        for _ in range(5):
            ids = [ledger.charge("org", ONE).id for _ in range(3)]
            ids.append(ledger.release(ledger.reserve("org", ONE)).id)
            assert not seen & set(ids)
            seen |= set(ids)
            now += 60
            ledger.expire()
            assert rows(ledger) == 0
        last = ledger.reserve("org", ONE).id
        for other in (last[:-1], last + "0", last.upper(), last + " ", "#", "#%", "##"):
            with pytest.raises(UnknownHoldError):
                ledger.commit(Hold("org", other))
        assert ledger.commit(Hold("org", last)).state == "committed"


def test_no_operation_scans_a_table(tmp_path: Path, watch: Watch) -> None:
    now = NOON
    statements: set[str] = set()
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        db = watch.db
        db.set_trace_callback(statements.add)
        for _ in range(20):
            ledger.set_limits("org/a", [Limit("tokens", 99, "hour"), Limit("c", 9, "rolling 60/6")])
            hold = ledger.reserve("org/a/b", {"tokens": 1, "c": 1}, key=f"k{now}", ttl=60)
            ledger.extend(hold, 120)
            ledger.commit(hold)
            ledger.charge("org/a", ONE)
            ledger.release(ledger.reserve("org/a", ONE))
            ledger.reserve("org", ONE, ttl=1)
            now += HOUR
            ledger.balance("org/a")
            ledger.history("org/a")
            ledger.hold("org/a/b", hold.id)
            ledger.expire()
        ledger.set_limits("org/a", [])
        db.set_trace_callback(None)
        words = ("SELECT", "INSERT", "UPDATE", "DELETE")
        asked = [text for text in statements if text.startswith(words)]
        assert {text.split()[0] for text in asked} == set(words)
        for text in asked:
            for *_, detail in db.execute("EXPLAIN QUERY PLAN " + text):
                assert "SCAN" not in detail or detail == "SCAN totals", (text, detail)  # one row


def test_an_operation_reads_and_writes_as_little_beside_many_others(
    tmp_path: Path, watch: Watch
) -> None:
    now = NOON
    steps: list[int] = []
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: now) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        db = watch.db

        def count() -> int:
            """Return in how many steps SQLite reserves and commits, in units of ten."""
            steps.clear()
            db.set_progress_handler(lambda: steps.append(1), 10)
            ledger.commit(ledger.reserve("org", ONE), ONE)
            db.set_progress_handler(None, 10)
            return len(steps)

        few = count()
        for number in range(150):
            ledger.reserve("org", ONE, ttl=86_400)
            ledger.charge("org", ONE, key=f"key-{number}")
        assert max(few, 10) * 1.5 > min(count() for _ in range(5))


def test_a_wrapped_call_takes_two_transactions(tmp_path: Path, watch: Watch) -> None:
    answer = says("Hello!", {"prompt_tokens": 6, "completion_tokens": 3})
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None)])
        model = BudgetWrapper(Script(answer, answer), ledger=ledger, account="org/agent")
        asyncio.run(model.chat([{"role": "user", "content": "Hello!"}]))  # looks at the limits too
        before = len(watch.statements)
        asyncio.run(model.chat([{"role": "user", "content": "Hello!"}]))
        statements = watch.statements[before:]
        assert statements.count("BEGIN IMMEDIATE") == statements.count("COMMIT") == 2
        assert ledger.balance("org")[0].spent == 18


def test_each_write_is_in_a_log_that_is_synced(tmp_path: Path, watch: Watch) -> None:
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON) as ledger:
        ledger.accounts()
        assert watch.db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert watch.db.execute("PRAGMA synchronous").fetchone() == (2,)

"""What calls used by model and tool, as their ledger is told of it."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger import memory
from budget_core.ledger.errors import LedgerError, LedgerUnavailableError
from budget_cpython import BudgetWrapper, ChatResponse, Ledger, Limit, SqliteLedger
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.tools import BudgetedToolCall
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.threaded import ThreadedLedger
from budget_cpython.ledger.usage_log import EVERY_S, MOST, UsageLog, usage_log_of
from tests.ledger.engines import AwaitedRedis, Engine, Memory, Postgres, Redis, Sqlite, of
from tests.ledger.sqlite.watch import nothing, watched

HOUR = 490_000 * HOUR_S
CALL = {"calls": 1, "tokens": 6}


class Model:
    """A model that another one answers for."""

    def get_default_model(self) -> str:
        return "small"

    async def chat(self, messages: Any, **options: Any) -> ChatResponse:
        usage = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
        answer: Any = ChatResponse("Hello.", usage=usage)
        answer.model = "small-2026\x1b"
        return answer  # type: ignore[no-any-return]


def call(ledger: Any, times: int = 1, **options: Any) -> None:
    model = BudgetWrapper(Model(), ledger=ledger, account="org/a", **options)

    async def calls() -> None:
        for _ in range(times):
            await model.chat([{"role": "user", "content": "Hello!"}])

    asyncio.run(calls())


def used(ledger: Any) -> list[Any]:
    rows = ledger.usage("org")
    assert all(row.hour % HOUR_S == 0 for row in rows)
    return [(row.path, row.model, row.tool, row.amounts) for row in rows]


@of(Memory, Sqlite, Redis, Postgres)
def test_usage_is_told_by_the_model_that_answered(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", 10_000)])
    call(ledger, 3)
    ledger.close()
    with closing(ledger if isinstance(engine, Memory) else engine.open()) as other:
        assert used(other) == [("org/a", r"small-2026\x1b", "", {"calls": 3, "tokens": 18})]


def test_usage_is_told_by_a_ledger_in_threads_and_past_a_limit(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    ledger.set_limits("org", [Limit("tokens", 1)])
    call(ThreadedLedger(ledger), enforcement="observe")
    call(ledger)  # which is refused
    ledger.close()
    assert [row[3] for row in used(ledger)] == [CALL]
    ledger.close()


def test_a_file_has_usage_in_the_commit_of_the_settlement(tmp_path: Path) -> None:
    with watched() as watch, SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10_000), Limit("tool_calls", 9)])
        call(ledger)
        before = len(watch.statements)
        for times in (2, 3):
            call(ledger)
            *_, last = " ".join(watch.statements[before:]).split("BEGIN IMMEDIATE")
            assert "UPDATE holds" in last
            assert "INTO usage" in last
            with SqliteLedger(tmp_path / "ledger.db") as other:
                assert [row[3] for row in used(other)] == [{"calls": times, "tokens": 6 * times}]
        with BudgetedToolCall([BudgetAccount((), ledger, "org/a")], "look"):
            pass
        assert [row[2] for row in used(ledger)] == ["look", ""]
    assert "microbudget-usage" not in [one.name for one in threading.enumerate()]


@pytest.mark.parametrize(("code", "told"), [("SQLITE_FULL", 2), ("SQLITE_IOERR", 1)])
def test_usage_in_a_commit_that_fails_comes_with_the_next_unless_it_may_be_there(
    tmp_path: Path, code: str, told: int
) -> None:
    error = sqlite3.OperationalError("of the disk")
    error.sqlite_errorcode = getattr(sqlite3, code)

    def fail(statement: str, values: Any) -> None:
        if statement == "COMMIT":
            watch.before = nothing
            raise error

    with watched() as watch, SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10_000)])
        hold = ledger.reserve("org", {"tokens": 6})
        note(ledger)
        watch.before = fail
        with pytest.raises(LedgerError):
            ledger.commit(hold)
        note(ledger)
        ledger.commit(hold)
        assert [row[3] for row in used(ledger)] == [{"calls": told, "tokens": 6 * told}]
        assert [one.spent for one in ledger.balance("org")] == [6]


@pytest.mark.parametrize("at", ["UPDATE holds", "INTO usage", "COMMIT"])
def test_usage_comes_with_the_next_settlement_if_one_is_interrupted(
    tmp_path: Path, at: str
) -> None:
    def interrupt(statement: str, values: Any) -> None:
        if at in statement:
            watch.before = nothing
            raise KeyboardInterrupt

    with watched() as watch, SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10_000)])
        hold = ledger.reserve("org", {"tokens": 6})
        note(ledger)
        watch.before = interrupt
        with pytest.raises(KeyboardInterrupt):
            ledger.commit(hold)
        assert ledger.usage() == []
        ledger.commit(hold)
        assert [row[3] for row in used(ledger)] == [CALL]


def note(ledger: Any) -> None:
    usage = usage_log_of(ledger)
    assert usage is not None
    usage.add("org", "small", "", CALL)


def test_usage_that_cannot_be_written_undoes_no_settlement(tmp_path: Path) -> None:
    def fail(statement: str, values: Any) -> None:
        if "INTO usage" in statement:
            raise sqlite3.OperationalError("of the disk")

    with watched() as watch, SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10_000)])
        hold = ledger.reserve("org", {"tokens": 6})
        note(ledger)
        watch.after = fail
        assert ledger.commit(hold).state == "committed"
        watch.after = nothing
        note(ledger)
        ledger.charge("org", {"tokens": 1})
        assert [row[3] for row in used(ledger)] == [{"calls": 2, "tokens": 12}]
        assert [one.spent for one in ledger.balance("org")] == [7]


def test_usage_of_a_lease_is_told_upstream() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 10_000)])
    with closing(LeasedLedger(ledger, {"tokens": 1000, "calls": 10})) as leased:
        call(leased, 2)
    assert [row[3] for row in used(ledger)] == [{"calls": 2, "tokens": 12}]


@of(AwaitedRedis)
def test_usage_of_an_asyncio_ledger_is_told_when_it_is_closed(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", 10_000)])
    model = BudgetWrapper(Model(), ledger=ledger.ledger, account="org/a")

    async def calls() -> None:
        for _ in range(3):
            await model.chat([{"role": "user", "content": "Hello!"}])
        await ledger.ledger.close()

    ledger.run(calls())
    assert [row[3] for row in used(ledger)] == [{"calls": 3, "tokens": 18}]


def test_a_ledger_of_another_package_is_given_what_notes_usage() -> None:
    class Foreign(memory.Ledger):
        def __init__(self) -> None:
            super().__init__()
            self.rows: list[Any] = []

        def add_usage(self, rows: Any) -> None:
            self.rows += rows

    ledger = Foreign()
    ledger.set_limits("org", [Limit("tokens", 100, "day")])
    assert BudgetAccount((), ledger, "org/a").ledger is ledger
    call(ledger)
    log = usage_log_of(ledger)
    assert log is not None
    log.flush()
    assert [(row.path, row.amounts) for row in ledger.rows] == [("org/a", CALL)]


def test_usage_of_tools_is_told_by_their_name() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tool_calls", 9), Limit("search", 2), Limit("usd", "1")])
    account = BudgetAccount((), ledger, "org/a", tool_prices={"search": "0.01"})
    for _ in range(2):
        with BudgetedToolCall([account], "search"):
            pass
    with BudgetedToolCall([account], "look"):
        pass
    price = {"nano_usd": 20_000_000}
    assert used(ledger) == [
        ("org/a", "", "look", {"tool_calls": 1}),
        ("org/a", "", "search", {"tool_calls": 2, "search": 2, **price}),
    ]


class Told:
    """A ledger that notes usage, or raises an error."""

    def __init__(self) -> None:
        self.rows: list[HourOfUsage] = []
        self.error: Exception | None = None

    def add_usage(self, rows: Any) -> None:
        if self.error is not None:
            raise self.error
        self.rows += rows


def test_what_could_not_be_told_is_told_later_unless_it_may_have_been(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger = Told()
    usage = UsageLog(ledger, lambda: HOUR + 5)
    for applied in (False, None):
        ledger.error = LedgerUnavailableError("no", applied=applied)
        usage.add("org", "small", "", CALL, False)
        usage.flush()
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
    ledger.error = None
    usage.flush()
    assert ledger.rows == []
    ledger.error = LedgerUnavailableError("no", applied=False)
    usage.add("org", "small", "", CALL, False)
    usage.flush()
    ledger.error = None
    usage.add("org", "small", "", CALL, False)
    usage.flush()
    assert ledger.rows == [HourOfUsage(HOUR, "org", "small", "", {"calls": 2, "tokens": 12})]


def test_rows_that_wait_are_bounded() -> None:
    ledger = Told()
    usage = UsageLog(ledger, lambda: HOUR)
    for number in range(MOST + 9):
        usage.add("org", f"model-{number}", "", CALL, False)
    usage.flush()
    assert len(ledger.rows) == MOST
    usage.add("org", "small", "", CALL, False)
    usage.flush()
    assert len(ledger.rows) == MOST + 1


def test_a_ledger_that_is_being_told_is_not_closed_before_it_was_told() -> None:
    class Slow(Told):
        begun = False

        async def add_usage(self, rows: Any) -> None:  # type: ignore[override]
            self.begun = True
            for _ in range(9):
                await asyncio.sleep(0)
            super().add_usage(rows)

    async def calls() -> None:
        ledger, now = Slow(), [100.0]
        usage = UsageLog(ledger, lambda: HOUR, lambda: now[0])
        now[0] += EVERY_S
        usage.add("org", "small", "", CALL)
        await asyncio.sleep(0)
        assert ledger.begun
        usage.add("org", "small", "", CALL)
        await usage.finish()
        assert [row.amounts for row in ledger.rows] == [CALL, CALL]

    asyncio.run(calls())


def test_a_shared_ledger_is_told_at_most_once_in_ten_seconds() -> None:
    class Shared(Told):
        times = 0

        async def add_usage(self, rows: Any) -> None:  # type: ignore[override]
            self.times += 1
            super().add_usage(rows)

    async def calls() -> None:
        ledger, now = Shared(), [100.0]
        usage = UsageLog(ledger, lambda: HOUR, lambda: now[0])
        for _ in range(5):
            usage.add("org", "small", "", CALL)
            await asyncio.sleep(0)
        assert ledger.times == 0
        now[0] += EVERY_S
        for _ in range(5):
            usage.add("org", "small", "", CALL)
            await asyncio.sleep(0)
        assert ledger.times == 1
        assert ledger.rows[0].amounts == {"calls": 6, "tokens": 36}
        await usage.flush_awaited()
        assert ledger.rows[1].amounts == {"calls": 4, "tokens": 24}

    asyncio.run(calls())


def test_without_a_date_nothing_is_told() -> None:
    ledger = Told()
    usage = UsageLog(ledger, lambda: 0)
    usage.add("org", "small", "", CALL)
    usage.flush()
    assert ledger.rows == []


PROGRAM = """
import asyncio, sys
from budget_cpython import BudgetWrapper, Limit, SqliteLedger
from tests.ledger.test_usage_log import Model
ledger = SqliteLedger(sys.argv[1])
ledger.set_limits("org", [Limit("tokens", 1000)])
model = BudgetWrapper(Model(), ledger=ledger, account="org/a")
async def calls():
    for _ in range(3):
        await model.chat([{"role": "user", "content": "Hello!"}])
asyncio.run(calls())
"""


def test_usage_is_told_at_the_end_of_a_process(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=True, timeout=300)
    with SqliteLedger(path) as ledger:
        assert [row[3] for row in used(ledger)] == [{"calls": 3, "tokens": 18}]


UNAVAILABLE = """
import os
from budget_core.ledger.errors import LedgerError, LedgerUnavailableError
from budget_cpython.ledger.usage_log import UsageLog
class Down:
    asked = 0
    def add_usage(self, rows):
        self.asked += 1
        if self.asked > 1:
            os._exit(7)
        raise LedgerUnavailableError("down", applied=False)
UsageLog(Down()).add("org", "small", "", {"calls": 1}, False)
"""


def test_a_process_ends_whose_ledger_cannot_be_told() -> None:
    subprocess.run([sys.executable, "-c", UNAVAILABLE], check=True, timeout=300)

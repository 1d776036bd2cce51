"""Refusals and changed limits among a ledger's events: each call once, repeated ones seldom."""

import asyncio
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.waiting import reserve_waiting
from budget_cpython import BudgetWrapper, ChatResponse, Ledger, Limit, SqliteLedger
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.limit_changes import CHANGED_BY
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.redis import RedisLedger
from budget_cpython.ledger.refusals import EVERY_S, MOST, RefusalLog
from budget_cpython.ledger.threaded import ThreadedLedger
from tests.ledger.engines import (
    AwaitedPostgres,
    AwaitedRedis,
    AwaitedSqlite,
    Engine,
    Memory,
    Postgres,
    Redis,
    Sqlite,
    of,
)
from tests.ledger.patience import PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis

ALL = (Memory, Sqlite, Redis, Postgres, AwaitedSqlite, AwaitedRedis, AwaitedPostgres)
KINDS = ("refused", "observed")


def refuse(ledger: Any, path: str = "org/a", tokens: int = 11) -> None:
    with pytest.raises(BudgetExceededError):
        ledger.reserve(path, {"tokens": tokens})


@of(*ALL)
def test_refusals_are_noted_with_how_many_there_were(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", 10)])
    hold = ledger.reserve("org/a", {"tokens": 4})
    for tokens in (7, 8, 9):
        refuse(ledger, "org/a", tokens)
    with pytest.raises(BudgetExceededError):
        ledger.renew(hold, {"tokens": 2}, {"tokens": 9})
    refuse(ledger, "org/b")
    ledger.expire()
    events = ledger.events(kinds=KINDS)
    limit = {"account": "org", "axis": "tokens", "window": "run", "cap": 10, "resets_at": None}
    assert events[0].account == "org/a"
    assert events[0].details == {
        "limit": {**limit, "spent": 0, "held": 4},
        "asked": 7,
        "times": 1,
    }
    assert sum(one.details["times"] for one in events if one.account == "org/a") == 4
    assert [one.details["asked"] for one in events if one.account == "org/b"] == [11]
    assert ledger.events("org/a", KINDS)[-1].details["limit"] == {**limit, "spent": 2, "held": 0}


@of(*ALL)
def test_limits_that_change_are_noted_and_the_same_ones_are_not(engine: Engine) -> None:
    ledger = engine.make()
    for cap in (10, 10, 20):
        ledger.set_limits("org", [Limit("tokens", cap), Limit("calls", None, "day")])
    ledger.set_limits("org", [])
    ledger.set_limits("org", [])
    events = ledger.events(kinds=["limits"])
    assert [one.account for one in events] == ["org"] * 3
    rows = [[["calls", None, "day"], ["tokens", cap, "run"]] for cap in (10, 20)]
    found = [(one.details["before"], one.details["after"]) for one in events]
    assert found == [([], rows[0]), (rows[0], rows[1]), (rows[1], [])]


def test_limits_say_who_changed_them(tmp_path: Path) -> None:
    before = CHANGED_BY.set("key ci")
    try:
        with SqliteLedger(tmp_path / "ledger.db") as ledger:
            ledger.set_limits("org", [Limit("tokens", 10)])
            assert ledger.events()[0].details["by"] == "key ci"
    finally:
        CHANGED_BY.reset(before)


@of(Memory, Sqlite, Redis, Postgres)
def test_a_call_that_is_granted_after_a_wait_is_no_refusal(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", 10)])
    hold = ledger.reserve("org", {"tokens": 10})
    waiting = threading.Thread(
        target=lambda: ledger.reserve("org", {"tokens": 5}, wait=PATIENCE), daemon=True
    )
    waiting.start()
    while not ledger_waits(ledger):
        waiting.join(0.01)
    ledger.release(hold)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    ledger.expire()
    assert ledger.events(kinds=KINDS) == []


def ledger_waits(ledger: Any) -> bool:
    from budget_core.ledger.waiting import room_of

    return room_of(ledger).waiting > 0


@of(Memory, Sqlite, Redis, Postgres)
def test_a_call_that_waits_in_vain_is_one_refusal(engine: Engine) -> None:
    ledger = engine.make()
    ledger.set_limits("org", [Limit("tokens", 10)])
    ledger.reserve("org", {"tokens": 10})
    with pytest.raises(BudgetExceededError):
        ledger.reserve("org", {"tokens": 5}, wait=0.2)
    ledger.expire()
    assert [one.details["times"] for one in ledger.events(kinds=KINDS)] == [1]


def test_a_task_that_waits_in_vain_is_one_refusal() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 10)])
    ledger.reserve("org", {"tokens": 10})
    with pytest.raises(BudgetExceededError):
        asyncio.run(reserve_waiting(ThreadedLedger(ledger), "org", {"tokens": 5}, wait=0.2))
    ledger.close()
    assert [one.details["times"] for one in ledger.events(kinds=KINDS)] == [1]


def test_a_call_whose_answer_is_cut_is_no_refusal() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 1000)])
    account = LedgerAccount(ledger, "org")
    held = asyncio.run(account.reserve("small", 10, 5000))
    assert 0 < (held.limit or 0) < 5000
    ledger.close()
    assert ledger.events(kinds=KINDS) == []
    with pytest.raises(BudgetExceededError):
        asyncio.run(account.reserve("small", 2000, 10))
    assert [one.details["times"] for one in ledger.events(kinds=KINDS)] == [1]


class Model:
    def get_default_model(self) -> str:
        return "small"

    async def chat(self, messages: Any, **options: Any) -> ChatResponse:
        return ChatResponse("Hello.", usage={"prompt_tokens": 3, "completion_tokens": 3})


@pytest.mark.parametrize(
    ("mode", "kind"), [("observe", "observed"), ("warn", "observed"), ("cutoff", "refused")]
)
def test_a_call_that_is_made_past_a_limit_is_observed(mode: str, kind: str) -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 1)])
    model = BudgetWrapper(Model(), ledger=ledger, account="org/a", enforcement=mode)
    asyncio.run(model.chat([{"role": "user", "content": "Hello, how are you?"}]))
    ledger.close()
    (event,) = ledger.events(kinds=KINDS)
    assert (event.kind, event.account) == (kind, "org/a")
    assert event.details.get("would") == (None if kind == "refused" else "cutoff")


def test_a_lease_that_draws_less_than_a_block_is_no_refusal() -> None:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 10)])
    with closing(LeasedLedger(ledger, {"tokens": 1000})) as leased:
        leased.reserve("org/a", {"tokens": 3})
        assert ledger.events(kinds=KINDS) == []
        refuse(leased)
        assert [one.details["asked"] for one in ledger.events(kinds=KINDS)] == [11]


def test_what_cannot_be_noted_changes_nothing_for_the_caller() -> None:
    class Broken(Ledger):
        def note(self, events: Any) -> list[int]:
            if events and events[0].kind == "refused":
                raise LedgerUnavailableError("no")
            return super().note(events)

    ledger = Broken()
    ledger.set_limits("org", [Limit("tokens", 10)])
    refuse(ledger)
    ledger.close()


class Notes(list[Any]):
    """Notes the events that it is given."""

    note = list.extend


def error(account: str, asked: int = 2) -> BudgetExceededError:
    return BudgetExceededError(account, "tokens", "day", asked, 1, 0, 0, None)


def test_refusals_of_a_path_by_a_limit_are_noted_once_in_ten_seconds() -> None:
    now = [100.0]
    notes = Notes()
    refusals = RefusalLog(notes, lambda: now[0])
    for asked in range(5):
        refusals.add("org/a", error("org", asked))
    refusals.add("org/a", error("org/a"))
    assert [one.details["times"] for one in notes] == [1, 1]
    now[0] += EVERY_S
    refusals.add("org/b", error("org"))
    assert [(one.account, one.details["times"]) for one in notes[2:]] == [
        ("org/a", 4),
        ("org/b", 1),
    ]
    assert notes[2].details["asked"] == 4
    refusals.flush()
    assert len(notes) == 4


def test_paths_that_are_refused_are_noted_up_to_a_number_and_then_together() -> None:
    notes, now = Notes(), [0.0]
    refusals = RefusalLog(notes, lambda: now[0])
    for number in range(3 * MOST):
        for _ in range(2):
            refusals.add(f"org/{number}", error("org"))
    assert len(notes) == MOST + 1
    assert notes[-1].account == "org"
    now[0] += EVERY_S
    refusals.add("org/0", error("org"))
    assert len(notes) == 2 * MOST + 2
    assert sum(one.details["times"] for one in notes) == 6 * MOST + 1
    now[0] += EVERY_S
    refusals.add("org/new", error("org"))
    assert (notes[-1].account, len(refusals._known)) == ("org/new", 1)


PROGRAM = """
import sys
from importlib import import_module
from budget_cpython import BudgetExceededError, Limit
ledger = getattr(import_module(sys.argv[1]), sys.argv[2])(sys.argv[3])
ledger.set_limits("org", [Limit("tokens", 1)])
for _ in range(3):
    try:
        ledger.reserve("org", {"tokens": 2})
    except BudgetExceededError:
        pass
"""


@pytest.mark.parametrize("kind", [SqliteLedger, RedisLedger, PostgresLedger])
def test_refusals_are_noted_at_the_end_of_a_process(kind: Any, tmp_path: Path) -> None:
    place, known = str(tmp_path / "ledger.db"), 0
    if kind is RedisLedger:
        place = redis.empty_server().url
    elif kind is PostgresLedger:
        place = postgres.server().conninfo()
        with closing(PostgresLedger(place, timeout=PATIENCE)) as ledger:
            known = len(ledger.events(kinds=KINDS))
    command = [sys.executable, "-c", PROGRAM, kind.__module__, kind.__name__, place]
    ended = subprocess.run(command, check=True, timeout=300, stderr=subprocess.PIPE)
    assert ended.stderr == b""
    with closing(kind(place)) as ledger:
        noted = ledger.events(kinds=KINDS)[known:]
        assert sum(one.details["times"] for one in noted) == 3

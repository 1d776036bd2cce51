"""What many threads, processes and ledgers note at once, also those that are forked or killed."""

import asyncio
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from budget_core.wall_clock import DAY
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from tests.forked import begin_in_child, exit_code
from tests.ledger.engines import (
    ENGINES,
    AwaitedPostgres,
    AwaitedRedis,
    AwaitedSqlite,
    Engine,
    Postgres,
    Redis,
    Served,
    Sqlite,
    of,
)
from tests.ledger.patience import NO_HURRY
from tests.racing import in_threads

NOON = 20_000 * DAY + DAY // 2
KEPT = (Sqlite, Redis, Postgres)  # where other processes find it
NAMES = [f"threshold/org/{number}" for number in range(40)]


def named(name: str) -> LedgerEvent:
    return LedgerEvent("threshold", "org", {}, name)


def note_all(ledger: Any) -> list[str]:
    """Note events of all names, some together; return those that were new."""
    order = random.Random(f"{os.getpid()} {threading.get_ident()}")  # noqa: S311 - no secrets
    names = order.sample(NAMES, len(NAMES))
    new = []
    while names:
        some, names = names[:3], names[order.randrange(1, 4) :]
        numbers = ledger.note([named(name) for name in some])
        new += [name for name, number in zip(some, numbers, strict=True) if number]
    return new


def assert_each_was_noted_once(ledger: Any, new: list[str]) -> None:
    assert sorted(new) == sorted(NAMES)
    found = ledger.events(most=10_000)
    assert sorted(one.name for one in found) == sorted(NAMES)
    assert [one.number for one in found] == list(range(1, len(NAMES) + 1))


@of(*ENGINES, Served)
def test_sixteen_threads_note_each_name_once(engine: Engine) -> None:
    ledger = engine.make()
    found = in_threads(lambda: note_all(ledger), 16)
    assert_each_was_noted_once(ledger, [name for of_thread in found for name in of_thread])


@of(AwaitedSqlite, AwaitedRedis, AwaitedPostgres)
def test_tasks_note_each_name_once(engine: Engine) -> None:
    engine.make()
    ledger = engine.open().ledger

    async def play() -> list[list[int]]:
        names = [named(name) for name in NAMES]
        found: list[list[int]] = await asyncio.gather(
            *[ledger.note(names[at:] + names[:at]) for at in range(16)]
        )
        await ledger.close()
        return found

    numbers = Counter(number for of_task in asyncio.run(play()) for number in of_task)
    assert numbers.pop(0) == 15 * len(NAMES)
    assert numbers == Counter(range(1, len(NAMES) + 1))


def in_processes(folder: Path, count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what `work` returns in each of some processes."""

    def run(number: int) -> None:
        (folder / str(number)).write_text(json.dumps(work(number)))

    children = [begin_in_child(partial(run, number)) for number in range(count)]
    assert [exit_code(child) for child in children] == [0] * count
    return [json.loads((folder / str(number)).read_text()) for number in range(count)]


@of(*KEPT)
def test_four_processes_note_each_name_once(engine: Engine, tmp_path: Path) -> None:
    ledger = engine.make()

    def work(number: int) -> list[str]:
        with closing(engine.open()) as own:
            found = in_threads(lambda: note_all(own), 4)
            return [name for of_thread in found for name in of_thread]

    found = in_processes(tmp_path, 4, work)
    assert_each_was_noted_once(ledger, [name for of_process in found for name in of_process])


@of(*KEPT)
def test_who_reads_after_a_number_misses_and_repeats_none(engine: Engine) -> None:
    ledger = engine.make()

    def write(by: int) -> None:
        with closing(engine.open()) as own:
            for turn in range(40):
                own.note([LedgerEvent("a", "", {"by": by, "turn": turn})] * (1 + turn % 3))

    children = [begin_in_child(partial(write, by)) for by in range(3)]
    seen: list[LedgerEvent] = []
    end = time.monotonic() + NO_HURRY
    while len(seen) < 3 * 79:
        assert time.monotonic() < end, "events are missing"
        seen += ledger.events(after=seen[-1].number if seen else 0, most=7)
    assert [exit_code(child) for child in children] == [0] * 3
    assert [one.number for one in seen] == list(range(1, 3 * 79 + 1))
    for by in range(3):
        turns = [one.details["turn"] for one in seen if one.details["by"] == by]
        assert turns == [turn for turn in range(40) for _ in range(1 + turn % 3)]


@of(*KEPT)
def test_usage_of_several_processes_and_ledgers_adds_up(engine: Engine, tmp_path: Path) -> None:
    ledger = engine.make()
    places = [(path, model) for path in ("org", "org/a") for model in ("large", "small")]

    def work(number: int) -> None:
        order = random.Random(number)  # noqa: S311 - in which rows are given
        with closing(engine.open()) as own:
            for _ in range(15):
                rows = [
                    HourOfUsage(NOON + 3600 * (hour % 2), *place, "", {"calls": 1, "tokens": hour})
                    for hour in (1, 2)
                    for place in order.sample(places, len(places))
                ]
                (own if number % 2 else ledger).add_usage(rows)

    in_processes(tmp_path, 4, work)
    assert ledger.usage() == [
        HourOfUsage(hour, *place, "", {"calls": 60, "tokens": tokens})
        for hour, tokens in ((NOON, 120), (NOON + 3600, 60))
        for place in places
    ]


@of(*KEPT)
def test_a_forked_process_and_its_parent_note_in_one_log(engine: Engine) -> None:
    engine.make()
    ledger = engine.open()
    ledger.note([LedgerEvent("begin", "", {})])
    plain = LedgerEvent("a", "org", {})
    row = HourOfUsage(NOON, "org", "m", "", {"calls": 1})

    def use() -> None:
        for _ in range(20):
            ledger.note([plain])
            ledger.add_usage([row])

    def use_and_close() -> None:
        use()
        ledger.close()

    child = begin_in_child(use_and_close)
    use()
    assert exit_code(child) == 0
    assert [one.number for one in ledger.events()] == list(range(1, 42))
    assert ledger.usage() == [row._replace(amounts={"calls": 40})]
    ledger.close()


@of(*KEPT)
def test_processes_that_are_killed_note_all_that_returned_and_nothing_twice(
    engine: Engine, tmp_path: Path
) -> None:
    ledger = engine.make()
    chance = random.Random(5)  # noqa: S311 - instants, not secrets
    told = tmp_path / "told"

    def work() -> None:
        with closing(engine.open()) as own, told.open("ab", buffering=0) as file:
            turn = 0
            while True:
                some = [named(f"{turn}/{part}") for part in range(2)]
                if all(own.note(some)):
                    file.write(f"{turn}\n".encode())
                turn += 1

    for kill in range(6):
        child = begin_in_child(work)
        wanted = (told.read_bytes().count(b"\n") if told.exists() else 0) + chance.randrange(1, 5)
        end = time.monotonic() + NO_HURRY
        while not told.exists() or told.read_bytes().count(b"\n") < wanted:
            assert time.monotonic() < end, "nothing is noted"
            time.sleep(chance.random() / 1000)
        os.kill(child, signal.SIGKILL)
        assert exit_code(child) == -signal.SIGKILL
        turns = [int(line) for line in told.read_text().split()]
        found = [one.name for one in ledger.events(most=100_000)]
        assert len(set(found)) == len(found)
        assert len(set(turns)) == len(turns)
        assert {f"{turn}/{part}" for turn in turns for part in range(2)} <= set(found)
        assert len(found) <= 2 * (len(turns) + kill + 1)
        assert all(f"{name.partition('/')[0]}/{part}" in found for name in found for part in "01")

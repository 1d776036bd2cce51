"""What a reservation and its commit in a file cost one thread, and what many threads gain.

Both files are on one disk, in WAL mode with `synchronous=FULL`, and take turns of ten: two bare
`BEGIN IMMEDIATE; UPDATE; COMMIT` of one row, then a `reserve` and a `commit` on one account, then
the same on a path three accounts deep. A round has enough turns for all to have their checkpoints,
and the ratio is that of the median round.

A call of `BudgetWrapper` on such a file is timed beside the same call without what operators are
told of it: its usage by model, and where a call that is tried several times ends.

Then 32 threads reserve and commit together, round by round beside one thread alone: on this disk,
and in a folder in memory where every commit sleeps until it has taken 0.3 ms, as on a quick disk.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.figures import Figure
from budget_core.ledger.hold import Process
from budget_core.ledger.limit import Limit
from budget_core.provider import ChatResponse
from budget_cpython import BudgetWrapper
from budget_cpython.ledger.process import PROCESS
from budget_cpython.ledger.sqlite import SqliteLedger

_DISK = Path(__file__).parent.parent / ".local"  # other places may be in memory
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder for this process alone is made in it
MOST = 1.8
MOST_TOLD = 1.05
IN_A_ROW = 10  # a turn: alone, each would find the caches full of the others' work
THREADS = 32
MOST_TIME = 1 / 2.5  # of an operation, to that of one thread
MOST_COMMITS = 1 / 6  # for an operation
COMMIT = 0.0003  # seconds
SLACK = 0.00006  # that a sleep takes longer
ACCOUNTS = ("org", "org/team", "org/team/agent")
AMOUNTS = {"tokens": 10}
_plain_connect: Any = sqlite3.connect
_US = 1_000_000


def measure(quick: bool = False) -> list[Figure]:
    """Return the times of both, and their ratios."""
    _DISK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=_DISK) as folder:
        rounds = _measure(Path(folder), *((3, 20) if quick else (11, 40)))
        told = _told(Path(folder), 5 if quick else 31)
        together = _together("on this disk", Path(folder), 0, None, 3 if quick else 11)
    bare, claim = (median(times[at] for times in rounds) for at in (0, 1))
    one, three = (median(times[at] / times[0] for times in rounds) for at in (1, 2))
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else _DISK) as folder:
        slowly = _together("in memory", Path(folder), COMMIT, MOST_TIME, 3 if quick else 11)
    return [
        Figure("ledger, SQLite: two bare transactions", bare * _US, "µs"),
        Figure("ledger, SQLite: reserve and commit, beside them", claim * _US, "µs"),
        Figure("ledger, SQLite: reserve and commit to two bare transactions", one, "", MOST),
        Figure("ledger, SQLite: the same, three accounts deep", three),
        Figure("ledger, SQLite: a wrapped call with what operators are told", told, "", MOST_TOLD),
        *together,
        *slowly,
    ]


def _measure(folder: Path, rounds: int, turns: int) -> list[list[float]]:
    """Return the seconds a turn takes in each round: bare, one account, three deep."""
    with (
        closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as db,
        SqliteLedger(folder / "ledger.db") as ledger,
    ):
        _prepare(db)
        for account in ACCOUNTS:
            ledger.set_limits(account, [Limit("tokens", None, "day")])

        def bare() -> None:
            for _ in range(2):
                db.execute("BEGIN IMMEDIATE")
                db.execute("UPDATE counts SET spent = spent + ? WHERE id = ?", (10, 1))
                db.execute("COMMIT")

        kinds = (bare, lambda: _claim(ledger, ACCOUNTS[0]), lambda: _claim(ledger, ACCOUNTS[2]))
        return [_round(kinds, turns) for _ in range(rounds)]


def _told(folder: Path, rounds: int) -> float:
    """Return the time of a wrapped call, to that of one which notes nothing for operators."""
    with SqliteLedger(folder / "told.db") as ledger:
        ledger.set_limits(ACCOUNTS[0], [Limit("tokens", None, "day")])
        model = BudgetWrapper(_Model(), ledger=ledger, account=ACCOUNTS[2])

        async def calls() -> None:
            await model.chat([{"role": "user", "content": "Hello!"}])

        def take(told: bool) -> None:
            model.ledger_account.process = PROCESS if told else Process()
            asyncio.run(calls())

        kinds = (lambda: take(False), lambda: take(True))
        times = [_round(kinds, 6) for _ in range(rounds)]
    return median(told / plain for plain, told in times)


class _Model:
    def get_default_model(self) -> str:
        return "small"

    async def chat(self, messages: Any, **options: Any) -> ChatResponse:
        return ChatResponse("Hello.", usage={"prompt_tokens": 4, "completion_tokens": 2})


def _claim(ledger: SqliteLedger, path: str) -> None:
    ledger.commit(ledger.reserve(path, AMOUNTS), AMOUNTS)


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE counts (id INTEGER PRIMARY KEY, spent INTEGER)")
    db.execute("INSERT INTO counts VALUES (1, 0)")


def _round(kinds: Sequence[Callable[[], None]], turns: int) -> list[float]:
    taken = [0.0] * len(kinds)
    for turn in range(turns):
        for place in range(len(kinds)):
            at = (turn + place) % len(kinds)  # none always follows on the same one
            began = time.perf_counter()
            for _ in range(IN_A_ROW):
                kinds[at]()
            taken[at] += time.perf_counter() - began
    return [seconds / turns / IN_A_ROW for seconds in taken]


def _together(
    where: str, folder: Path, least: float, target: float | None, rounds: int
) -> list[Figure]:
    """Return what operations of many threads cost to those of one, and how they share commits."""
    with _watched(least) as commits, SqliteLedger(folder / "many.db", timeout=60) as ledger:
        ledger.set_limits(ACCOUNTS[0], [Limit("tokens", None, "day")])
        _at_once(ledger, 1, 20)
        ratios, alone, shared = [], [], []
        for _ in range(rounds):
            commits.clear()
            one = _at_once(ledger, 1, 100)
            alone += commits
            commits.clear()
            ratios.append(_at_once(ledger, THREADS, 10) / one)
            shared.append(len(commits) / (THREADS * 20))
    name = f"ledger, SQLite, {where}: "
    return [
        Figure(name + "a commit of one thread", median(alone) * _US, "µs"),
        Figure(
            name + f"time of an operation, {THREADS} threads to one", median(ratios), "", target
        ),
        Figure(
            name + f"commits for an operation, {THREADS} threads", max(shared), "", MOST_COMMITS
        ),
    ]


def _at_once(ledger: SqliteLedger, threads: int, claims: int) -> float:
    """Return the seconds that an operation takes while so many threads make so many claims."""

    def claim() -> None:
        for _ in range(claims):
            _claim(ledger, ACCOUNTS[0])

    working = [threading.Thread(target=claim) for _ in range(threads)]
    began = time.perf_counter()
    for one in working:
        one.start()
    for one in working:
        one.join()
    return (time.perf_counter() - began) / (threads * claims * 2)


@contextmanager
def _watched(least: float) -> Iterator[list[float]]:
    """Yield a list that takes the seconds of commits, each of which takes `least` at least."""
    seconds: list[float] = []

    class Watched(sqlite3.Connection):
        def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
            began = time.perf_counter()
            cursor = super().execute(statement, values)
            if statement == "COMMIT":
                time.sleep(max(0, began + least - SLACK - time.perf_counter()))
                seconds.append(time.perf_counter() - began)
            return cursor

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = _plain_connect(*args, factory=Watched, **options)
        return db

    with mock.patch("sqlite3.connect", connect):
        yield seconds

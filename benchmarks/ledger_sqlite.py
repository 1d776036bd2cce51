"""What a reservation and its commit in a file cost, beside two bare transactions on another.

Both files are on one disk, in WAL mode with `synchronous=FULL`, and take turns of ten: two bare
`BEGIN IMMEDIATE; UPDATE; COMMIT` of one row, then a `reserve` and a `commit` on one account, then
the same on a path three accounts deep. A round has enough turns for all to have their checkpoints,
and the ratio is that of the median round.
"""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger

_DISK = Path(__file__).parent.parent / ".local"  # other places may be in memory
MOST = 1.3
IN_A_ROW = 10  # a turn: alone, each would find the caches full of the others' work
ACCOUNTS = ("org", "org/team", "org/team/agent")
AMOUNTS = {"tokens": 10}
_US = 1_000_000


def measure(quick: bool = False) -> list[Figure]:
    """Return the times of both, and their ratios."""
    _DISK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=_DISK) as folder:
        rounds = _measure(Path(folder), *((3, 20) if quick else (11, 40)))
    bare, claim = (median(times[at] for times in rounds) for at in (0, 1))
    one, three = (median(times[at] / times[0] for times in rounds) for at in (1, 2))
    return [
        Figure("ledger, SQLite: two bare transactions", bare * _US, "µs"),
        Figure("ledger, SQLite: reserve and commit, beside them", claim * _US, "µs"),
        Figure("ledger, SQLite: reserve and commit to two bare transactions", one, "", MOST),
        Figure("ledger, SQLite: the same, three accounts deep", three),
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

        def claim(path: str) -> None:
            ledger.commit(ledger.reserve(path, AMOUNTS), AMOUNTS)

        kinds = (bare, lambda: claim(ACCOUNTS[0]), lambda: claim(ACCOUNTS[2]))
        return [_round(kinds, turns) for _ in range(rounds)]


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE counts (id INTEGER PRIMARY KEY, spent INTEGER)")
    db.execute("INSERT INTO counts VALUES (1, 0)")


def _round(kinds: Sequence[Callable[[], None]], turns: int) -> list[float]:
    taken = [0.0] * len(kinds)
    for turn in range(turns):
        for place in range(len(kinds)):
            at = (turn + place) % len(kinds)  # nobody always follows on the same one
            began = time.perf_counter()
            for _ in range(IN_A_ROW):
                kinds[at]()
            taken[at] += time.perf_counter() - began
    return [seconds / turns / IN_A_ROW for seconds in taken]

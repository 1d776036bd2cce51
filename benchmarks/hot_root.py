"""How much one root bounds: eight threads that reserve below one, below eight, and by leases.

Postgres waits for its disk at each commit, as it does unless told otherwise. They take turns, three
times; the mean counts.
"""

import threading
import time
from contextlib import closing
from typing import Any

from benchmarks.figures import Figure, ratio
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.patience import NO_HURRY
from tests.ledger.postgres.server import PostgresServer
from tests.ledger.redis.server import empty_server

ROUNDS = 3
CALL = {"calls": 1}
ONE, EIGHT = ["org0/a"] * 8, [f"org{number}/a" for number in range(8)]


def measure(quick: bool = False) -> list[Figure]:
    """Return reservations a second, and their ratios."""
    seconds = 0.3 if quick else 3.0
    server = PostgresServer(fsync=True)
    try:
        with closing(PostgresLedger(server.conninfo(), max_connections=8)) as ledger:
            found = _on("Postgres", ledger, seconds)
    finally:
        server.stop()
    with closing(RedisLedger(empty_server().url, timeout=NO_HURRY)) as ledger:
        return [*found, *_on("Redis", ledger, seconds)]


def _on(name: str, ledger: Any, seconds: float) -> list[Figure]:
    for path in EIGHT:
        ledger.set_limits(path.partition("/")[0], [Limit("calls", 10**12)])
    sides = {"alone": 0.0, "one": 0.0, "eight": 0.0, "leases": 0.0}
    with closing(LeasedLedger(ledger, {"calls": 100})) as leased:
        for _ in range(ROUNDS):
            sides["alone"] += _rate(ledger, ONE[:1], seconds)
            sides["one"] += _rate(ledger, ONE, seconds)
            sides["eight"] += _rate(ledger, EIGHT, seconds)
            sides["leases"] += _rate(leased, ONE, seconds)
    alone, one, eight, leases = (rate / ROUNDS for rate in sides.values())
    return [
        Figure(f"{name}, reserve: one thread", alone, "/s"),
        Figure(f"{name}, reserve: eight threads, one root", one, "/s"),
        Figure(f"{name}, reserve: eight threads, eight roots", eight, "/s"),
        ratio(f"{name}, reserve: eight roots to one", eight, one),
        ratio(f"{name}, reserve: one root, leases of 100 to none", leases, one),
    ]


def _rate(ledger: Any, paths: list[str], seconds: float) -> float:
    """Return how many reservations a second threads make, one on each path."""
    counts = [0] * len(paths)
    end = time.monotonic() + seconds

    def run(place: int) -> None:
        while time.monotonic() < end:
            ledger.reserve(paths[place], CALL)
            counts[place] += 1

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds

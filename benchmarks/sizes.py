"""How many bytes an account, a hold, an event and an hour of usage take on each engine.

Each account has one limit on money by the day. Holds are one an account; the
settled ones are known for a day by their ids. A file or a table grows by pages, so that many are
divided by their number. Memory is what the process or the server has allocated for them.
"""

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from budget_core.ledger.limit import Limit
from budget_cpython import Ledger, SqliteLedger
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.postgres.server import PostgresServer
from tests.ledger.redis.server import RedisServer

_MANY, _FEW = 5_000, 500
_AMOUNTS = {"usd": "0.05", "tokens": 6_000, "calls": 1}
_USED = {"nano_usd": 41_000_000, "tokens": 4_812, "calls": 1}
_TABLES = """
    SELECT sum(pg_total_relation_size(pg_class.oid))::bigint
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = 'microbudget' AND relkind = 'r'
"""


def measure(quick: bool = False) -> list[Figure]:
    """Return the bytes of each, engine by engine."""
    count = _FEW if quick else _MANY
    return [*_memory(count), *_sqlite(count), *_redis(count), *_postgres(count)]


def _memory(count: int) -> list[Figure]:
    def size() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        with closing(Ledger()) as ledger:
            return _figures("memory", ledger, size, count)
    finally:
        tracemalloc.stop()


def _sqlite(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        with SqliteLedger(path) as ledger:

            def size() -> int:
                with closing(SqliteLedger.view(path)) as db:
                    (pages,) = db.execute("PRAGMA page_count").fetchone()
                    (page,) = db.execute("PRAGMA page_size").fetchone()
                return int(pages * page)

            return _figures("SQLite", ledger, size, count)


def _redis(count: int) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        RedisServer(Path(folder)) as server,
        closing(server.client()) as client,
        closing(RedisLedger(server.url)) as ledger,
    ):
        return _figures("Redis", ledger, lambda: client.info("memory")["used_memory"], count)


def _postgres(count: int) -> list[Figure]:
    server = PostgresServer(fsync=False)
    try:
        with closing(PostgresLedger(server.conninfo())) as ledger:
            return _figures("Postgres", ledger, lambda: server.execute(_TABLES)[0][0], count)
    finally:
        server.stop()


def _figures(engine: str, ledger: Any, size: Callable[[], int], count: int) -> list[Figure]:
    holds: list[Any] = []
    hour = int(time.time()) // HOUR_S * HOUR_S

    def account(number: int) -> None:
        ledger.set_limits(f"org/agent-{number}", [Limit("usd", "5.00", "day")])

    def hold(number: int) -> None:
        holds.append(ledger.reserve(f"org/agent-{number}", _AMOUNTS, ttl=3600))

    def settle(number: int) -> None:
        ledger.commit(holds[number], _AMOUNTS)

    def event(number: int) -> None:
        ledger.note([LedgerEvent("deployed", f"org/agent-{number}", {"version": "1.2"})])

    def usage(number: int) -> None:
        row = HourOfUsage(hour, f"org/agent-{number}", "openai/gpt-5-mini", "", _USED)
        ledger.add_usage([row])

    ledger.set_limits("org", [Limit("usd", "5000.00", "day")])
    ledger.accounts()
    figures, sizes = [], [size()]
    for add in (account, hold, settle, event, usage):
        for number in range(count):
            add(number)
        sizes.append(size())
    first, accounts, held, settled, events, rows = sizes
    grown = {
        "an account": accounts - first,
        "a live hold": held - accounts,
        "a settled hold": settled - accounts,
        "an event": events - settled,
        "an hour of usage of an account and model": rows - events,
    }
    for what, extent in grown.items():
        figures.append(Figure(f"{engine}, {what}", round(extent / count), "B"))
    return figures

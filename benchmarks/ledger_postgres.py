"""What a reservation in Postgres costs beside a bare UPDATE … RETURNING from the same client.

Both go to one server on a Unix socket, each in a transaction of its own that is flushed to the disk
before it is answered, and take turns call by call; the median of each counts. The bare one is
prepared, and runs over a connection of psycopg as anybody would open it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

import psycopg

from benchmarks.figures import Figure, ratio
from benchmarks.turns import medians, medians_awaited
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from tests.ledger.postgres.server import PostgresServer

MOST_TIMES = 1.8  # of the time of a bare UPDATE
BARE = "UPDATE bare SET count = count + %s WHERE id = %s RETURNING count"
PARAMETERS = (5, "org")
AMOUNTS = {"tokens": 5}
LIMITS = [Limit("tokens", 10**15, "day")]
MANY = 100_000


def measure(quick: bool = False) -> list[Figure]:
    """Return microseconds a call, and the ratios, for threads and for asyncio."""
    calls = 200 if quick else 3_000
    server = PostgresServer(fsync=True)
    try:
        server.execute("CREATE TABLE bare (id text PRIMARY KEY, count bigint) WITH (fillfactor=50)")
        server.execute("INSERT INTO bare VALUES ('org', 0)")
        return [
            *_blocking(server, calls),
            *asyncio.run(_waiting(server, calls)),
            *_beside_many(server, calls),
        ]
    finally:
        server.stop()


def _blocking(server: PostgresServer, calls: int) -> list[Figure]:
    conninfo = server.conninfo()
    with (
        psycopg.connect(conninfo, autocommit=True, prepare_threshold=0) as connection,
        closing(PostgresLedger(conninfo)) as ledger,
    ):
        ledger.set_limits("org", LIMITS)
        ledger.set_limits("org/team", LIMITS)

        def bare() -> None:
            connection.execute(BARE, PARAMETERS).fetchone()

        def reserve() -> None:
            ledger.reserve("org", AMOUNTS)

        def deep() -> None:
            ledger.reserve("org/team/agent", AMOUNTS)

        def settle() -> None:
            ledger.commit(ledger.reserve("org", AMOUNTS), AMOUNTS)

        bare_us, reserve_us, deep_us, settle_us = medians((bare, reserve, deep, settle), calls)
    return [
        Figure("Postgres, UPDATE … RETURNING", bare_us, "µs"),
        Figure("Postgres, reserve", reserve_us, "µs"),
        ratio("Postgres, reserve: ratio", reserve_us, bare_us, MOST_TIMES),
        ratio("Postgres, reserve below two accounts: ratio", deep_us, bare_us),
        ratio("Postgres, reserve and commit: ratio to two UPDATEs", settle_us, 2 * bare_us),
    ]


async def _waiting(server: PostgresServer, calls: int) -> list[Figure]:
    conninfo = server.conninfo()
    connection = await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, prepare_threshold=0
    )
    ledger = AsyncPostgresLedger(conninfo)
    await ledger.set_limits("async", LIMITS)

    async def bare() -> None:
        await (await connection.execute(BARE, PARAMETERS)).fetchone()

    asked: list[Callable[[], Awaitable[Any]]] = [bare, lambda: ledger.reserve("async", AMOUNTS)]
    bare_us, reserve_us = await medians_awaited(asked, calls)
    await ledger.close()
    await connection.close()
    return [
        Figure("Postgres, reserve with asyncio", reserve_us, "µs"),
        ratio("Postgres, reserve with asyncio: ratio", reserve_us, bare_us, MOST_TIMES),
    ]


def _beside_many(server: PostgresServer, calls: int) -> list[Figure]:
    """Return how much longer a reservation takes beside many live holds and accounts."""
    conninfo = server.conninfo()
    with (
        closing(PostgresLedger(conninfo, schema="few")) as few,
        closing(PostgresLedger(conninfo, schema="many")) as many,
    ):
        for ledger in (few, many):
            ledger.set_limits("org", LIMITS)
        server.execute(
            "INSERT INTO many.limits (account, axis, span, cap, earliest, start, finish) "
            "SELECT 'org/' || n, axis, span, cap, earliest, start, finish "
            "FROM many.limits, generate_series(1, %s) n",
            MANY,
        )
        server.execute(
            "INSERT INTO many.holds (root, id, path, amounts, state, expires, limits, cells) "
            "SELECT 'org', md5(n::text), 'org', '{}', 'held', 1::bigint << 50, '{1}', '{0}' "
            "FROM generate_series(1, %s) n",
            MANY,
        )
        server.execute("CHECKPOINT")
        few_us, many_us = medians(
            (lambda: few.reserve("org", AMOUNTS), lambda: many.reserve("org", AMOUNTS)), calls
        )
    name = f"Postgres, reserve beside {MANY:,} holds and accounts: ratio"
    return [ratio(name, many_us, few_us)]

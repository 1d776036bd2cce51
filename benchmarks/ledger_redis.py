"""What a reservation in Redis costs beside a script of one line, sent by the same kind of client.

Both go to one server on a Unix socket, which makes the least of the way there, and take turns call
by call; the median of each counts.
"""

import asyncio
import importlib.util
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
import redis.asyncio

from benchmarks.figures import Figure, ratio
from benchmarks.turns import medians, medians_awaited
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from budget_cpython.ledger.redis.client import open_client
from tests.ledger.redis.server import RedisServer

MOST_TIMES = 1.6  # of the time of a script of one line
SCRIPT = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
AMOUNTS = {"tokens": 5}
LIMITS = [Limit("tokens", 10**15, "day")]
HOLDS = 10_000


def measure(quick: bool = False) -> list[Figure]:
    """Return microseconds a call, and the ratios, for threads and for asyncio."""
    calls = 500 if quick else 5_000
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
        return [
            *_blocking(server, calls),
            *asyncio.run(_waiting(server, calls)),
            *_beside_many(server, calls),
        ]


def _blocking(server: RedisServer, calls: int) -> list[Figure]:
    client = open_client(redis, server.url, 1.0)
    with closing(RedisLedger(server.url)) as ledger, closing(client):
        ledger.set_limits("org", LIMITS)
        ledger.set_limits("org/team", LIMITS)
        script = client.register_script(SCRIPT)

        def bare() -> None:
            script(["count"], [5])

        def reserve() -> None:
            ledger.reserve("org", AMOUNTS)

        def deep() -> None:
            ledger.reserve("org/team/agent", AMOUNTS)

        def settle() -> None:
            ledger.commit(ledger.reserve("org", AMOUNTS), AMOUNTS)

        bare_us, reserve_us, deep_us, settle_us = medians((bare, reserve, deep, settle), calls)
    kind = "with hiredis" if importlib.util.find_spec("hiredis") else "without hiredis"
    return [
        Figure(f"Redis, INCRBY in a script, {kind}", bare_us, "µs"),
        Figure("Redis, reserve", reserve_us, "µs"),
        ratio("Redis, reserve: ratio", reserve_us, bare_us, MOST_TIMES),
        ratio("Redis, reserve below two accounts: ratio", deep_us, bare_us),
        ratio("Redis, reserve and commit: ratio to two scripts", settle_us, 2 * bare_us),
    ]


async def _waiting(server: RedisServer, calls: int) -> list[Figure]:
    client = open_client(redis.asyncio, server.url, 1.0)
    ledger = AsyncRedisLedger(server.url)
    await ledger.set_limits("async", LIMITS)
    script = client.register_script(SCRIPT)
    asked: list[Callable[[], Awaitable[Any]]] = [
        lambda: script(["count"], [5]),
        lambda: ledger.reserve("async", AMOUNTS),
    ]
    bare_us, reserve_us = await medians_awaited(asked, calls)
    await ledger.close()
    await client.aclose()
    return [
        Figure("Redis, reserve with asyncio", reserve_us, "µs"),
        ratio("Redis, reserve with asyncio: ratio", reserve_us, bare_us, MOST_TIMES),
    ]


def _beside_many(server: RedisServer, calls: int) -> list[Figure]:
    """Return how much longer a reservation takes beside many live holds and accounts."""
    with (
        closing(RedisLedger(server.url, prefix="few")) as few,
        closing(RedisLedger(server.url, prefix="many")) as many,
    ):
        for ledger in (few, many):
            ledger.set_limits("org", LIMITS)
        for number in range(HOLDS):
            many.reserve("org", AMOUNTS)
            many.set_limits(f"org/{number}", LIMITS)
        few_us, many_us = medians(
            (lambda: few.reserve("org", AMOUNTS), lambda: many.reserve("org", AMOUNTS)), calls
        )
    name = f"Redis, reserve beside {HOLDS:,} holds and accounts: ratio"
    return [ratio(name, many_us, few_us)]

"""An empty ledger of each engine of this machine."""

from contextlib import closing
from pathlib import Path
from typing import Any

from budget_cpython import Ledger, SqliteLedger
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis


def in_memory(folder: Path) -> Any:
    return Ledger()


def in_sqlite(folder: Path) -> Any:
    return SqliteLedger(folder / "ledger.db", timeout=NO_HURRY)


def in_redis(folder: Path) -> Any:
    return RedisLedger(redis.empty_server().url, timeout=PATIENCE)


def in_postgres(folder: Path) -> Any:
    ledger = PostgresLedger(postgres.server().conninfo(), timeout=NO_HURRY)
    ledger.accounts()
    with closing(postgres.Emptier()) as emptier:
        emptier.empty()
    return ledger


ENGINES = (in_memory, in_sqlite, in_redis, in_postgres)

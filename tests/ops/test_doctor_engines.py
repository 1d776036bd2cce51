"""The checks of Redis, Postgres and a service."""

from typing import Any
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from budget_cpython.finding import Finding, Result
from budget_cpython.ops.doctor import examine
from budget_cpython.wall_clock import WALL
from tests.ledger.patience import PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis
from tests.serve.support import Service


def found(url: str, **options: Any) -> dict[str, Finding]:
    return dict(examine(url, int(WALL()), options, timeout_s=PATIENCE))


def test_a_redis_server_is_examined() -> None:
    findings = found(redis.server().url)
    assert findings["engine"].result is Result.OK
    assert findings["clock"].result is not Result.FAILS
    durability = findings["durability"]
    assert "append" in durability.found
    assert (durability.fix is None) == (durability.result is Result.OK)


def test_a_postgres_server_is_examined() -> None:
    said = conninfo_to_dict(postgres.server().conninfo())
    name, password = said["user"], said["password"]
    host = quote(str(said["host"]), safe="")
    findings = found(f"postgresql://{name}:{password}@/{said['dbname']}?host={host}")
    assert findings["engine"].result is Result.OK
    assert "Postgres" in findings["engine"].found
    assert findings["clock"].result is not Result.FAILS
    assert findings["durability"].result is Result.FAILS  # tests run without fsync
    assert "fsync is off" in findings["durability"].found


def test_a_service_is_examined() -> None:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as service:
        findings = found(service.url)
    assert {findings[name].result for name in ("engine", "readiness")} == {Result.OK}
    assert findings["clock"].result is not Result.FAILS
    assert findings["durability"].result is Result.NOT_RUN


def test_a_server_that_is_gone_fails_and_no_password_is_shown() -> None:
    findings = found("redis://:secret@127.0.0.1:1/0")
    assert findings["engine"].result is Result.FAILS
    assert findings["durability"].result is Result.NOT_RUN
    assert not [one for one in findings.values() if "secret" in one.found]

"""A pooler in transaction mode, PgBouncer, between a ledger and its server.

`PGBOUNCER` names a folder in which `scripts/debs.sh own FOLDER pgbouncer` has unpacked it, and
which every user may read; without it nothing is tried here.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.postgres import PostgresLedger
from tests.ledger.patience import PATIENCE, until
from tests.ledger.postgres.server import ROOT_RUNS_AS, server
from tests.racing import in_threads

FOLDER = os.environ.get("PGBOUNCER")
SCHEMA = "pooled"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER is None, reason="PGBOUNCER names no folder"),
]


@contextmanager
def pooled(folder: Path, *settings: str) -> Iterator[str]:
    """Run a pooler with three connections to the server; `as` gives its conninfo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = f"host={server().folder} user=postgres dbname=postgres"
    lines = ["[databases]", f"postgres = {place}", "[pgbouncer]", "auth_type = any"]
    lines += ["pool_mode = transaction", "default_pool_size = 3", "unix_socket_dir ="]
    lines += ["listen_addr = 127.0.0.1", f"listen_port = {port}", *settings]
    file = server().folder / f"pgbouncer-{port}.ini"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o644)
    libraries = [str(one.parent) for one in Path(str(FOLDER)).rglob("libevent*.so*")]
    pooler = subprocess.Popen(
        [f"{FOLDER}/usr/sbin/pgbouncer", str(file)],
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)},
        user=ROOT_RUNS_AS if os.geteuid() == 0 else None,
        stderr=subprocess.DEVNULL,
    )
    conninfo = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    try:
        with until(lambda: psycopg.connect(conninfo), psycopg.OperationalError):
            pass
        yield conninfo
    finally:
        pooler.terminate()
        pooler.wait()
        server().execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def test_calls_of_many_threads_are_counted_over_a_few_connections(tmp_path: Path) -> None:
    options = {"schema": SCHEMA, "timeout": PATIENCE}
    with (
        pooled(tmp_path) as conninfo,
        closing(PostgresLedger(conninfo, behind_pooler=True, max_connections=8, **options)) as ours,  # type: ignore[arg-type]
    ):
        ours.set_limits("org", [Limit("calls", 1000, "run")])

        def call() -> None:
            for _ in range(20):
                ours.commit(ours.reserve("org/a", {"calls": 1}), {"calls": 1})

        in_threads(call, 8)
        assert ours.balance("org")[0].spent == 160
        refused = pytest.raises(LedgerUnavailableError, match="startup parameter")
        with closing(PostgresLedger(conninfo, **options)) as plain, refused:  # type: ignore[arg-type]
            plain.accounts()


def test_a_connection_that_lost_its_settings_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(LedgerUnavailableError, match="pass behind_pooler=True")
    with (
        pooled(tmp_path, "ignore_startup_parameters = options") as conninfo,
        closing(PostgresLedger(conninfo, schema=SCHEMA, timeout=PATIENCE)) as plain,
        refused as caught,
    ):
        plain.accounts()
    assert caught.value.applied is False

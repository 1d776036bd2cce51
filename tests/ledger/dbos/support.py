"""Launch DBOS in the tests' own process, and run functions as its workflows."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID, SQLAlchemyDatasource

from tests.ledger.postgres.server import server

QUEUE = "at-once"
SQLITE_WILL_DO = sys.version_info < (3, 12) or sqlite3.sqlite_version_info >= (3, 42)  # for DBOS
SQLITE_TOO_OLD = "DBOS needs SQLite 3.42 or later on Python 3.12 or later"
PAST_ALL = 10_000  # more steps than any workflow here has


class Launched:
    """DBOS, and workflows that run what they are told to; `source` is a datasource."""

    def __init__(self, url: str, source: str) -> None:
        config: Any = {
            "name": "microbudget-test", "system_database_url": url, "log_level": "CRITICAL",
            "sys_db_pool_size": 5,
        }  # fmt: skip
        DBOS(config=config)
        self.source = SQLAlchemyDatasource.create(source)
        self._scripts: dict[str, Callable[[], Any]] = {}

        @DBOS.workflow(name="blocking")
        def blocking(script: str) -> Any:
            return self._scripts[script]()

        @DBOS.workflow(name="waiting")
        async def waiting(script: str) -> Any:
            return await self._scripts[script]()

        self._blocking, self._waiting = blocking, waiting
        DBOS.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=0.02)

    def start(self, name: str, script: Callable[[], Any]) -> Any:
        """Start a workflow of this id, and return its handle."""
        self._scripts[name] = script
        with SetWorkflowID(name):
            return DBOS.start_workflow(self._blocking, name)

    def run(self, name: str, script: Callable[[], Any]) -> Any:
        """Run a workflow of this id to its end."""
        return self.start(name, script).get_result(polling_interval_sec=0.01)

    async def run_async(self, name: str, script: Callable[[], Any]) -> Any:
        """Run an async workflow of this id to its end."""
        self._scripts[name] = script
        with SetWorkflowID(name):
            handle: Any = await DBOS.start_workflow_async(self._waiting, name)
        return await handle.get_result(polling_interval_sec=0.01)

    def again(self, name: str, step: int = PAST_ALL) -> Any:
        """Replay a workflow, and run it anew from this step on."""
        handle: Any = DBOS.rewind_workflow(name, start_step=step, queue_name=QUEUE)
        return handle.get_result(polling_interval_sec=0.01)


@contextmanager
def launched(folder: Path) -> Iterator[Launched]:
    """Run DBOS on databases named for a folder, and leave no trace of it."""
    one = Launched(database_url(folder, "dbos"), database_url(folder, "states"))
    try:
        yield one
    finally:
        DBOS.destroy(destroy_registry=True)
        one.source.engine.dispose()


def database_url(folder: Path, name: str) -> str:
    """Return the address of a new database: a file in a folder, or one of the tests' Postgres.

    The latter is named for the folder; it is taken where DBOS needs a newer SQLite.
    """
    if SQLITE_WILL_DO:
        return f"sqlite:///{folder}/{name}.db"
    return postgres_url("".join(filter(str.isalnum, f"{folder.name}{name}")))


def postgres_url(database: str) -> str:
    """Return the address of a new database of the tests' server."""
    server().execute(f"CREATE DATABASE {database}")
    return f"postgresql://postgres:hunter2-hunter2@/{database}?host={server().folder}"

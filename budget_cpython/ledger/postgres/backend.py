"""Do a ledger's operations on a Postgres server, one statement each."""

import secrets
from collections.abc import Sequence
from copy import copy
from typing import Any

import psycopg

from budget_core.ledger.errors import LedgerError, LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.ledger.batching import BatchQueue
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.postgres.connections import ASYNCIO, Connections, Driver
from budget_cpython.ledger.postgres.conninfo import milliseconds
from budget_cpython.ledger.postgres.error_mapping import READ_ONLY, RETRY, is_lost, ledger_error
from budget_cpython.ledger.postgres.place import Place
from budget_cpython.ledger.postgres.schema import execute, install
from budget_cpython.ledger.postgres.statements import (
    BATCH,
    LEAVING,
    Arguments,
    parameters,
    statement,
    together,
)

OF_ONE = ("22", "23")  # classes of errors that other operations may not have: of values, of rows
FORGET_EVERY = 100  # of them; up to `BATCH` old rows go with each of these


class PostgresBackend:
    """A backend over psycopg, as `remote.Backend` says; `options` are those of `Connections`.

    What tasks ask while a transaction is under way shares the next one.
    """

    is_spread = False

    def __init__(
        self,
        driver: Driver,
        conninfo: Any,
        schema: str,
        migrate: bool,
        place: Place,
        **options: Any,
    ) -> None:
        self.place = place
        self._schema = schema
        self._migrate = migrate
        self._own_timeout_ms = (
            milliseconds(options["timeout"]) if options["prepared_statements"] else None
        )
        self._connections = Connections(driver, conninfo, self._prepare, **options)
        self._installed = False
        self._rows = secrets.randbelow(FORGET_EVERY)  # so that short-lived ledgers forget too
        self._queue: BatchQueue[tuple[str, Arguments], list[Any]] | None = None
        if driver is ASYNCIO:
            self._queue = BatchQueue(self._do_together, most=BATCH)

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation; repeat it, at the first time of the server's, as long as it asks."""
        arguments = {**arguments, "forget": 0}
        if operation in LEAVING:
            self._rows += 1
            if self._rows % FORGET_EVERY == 0:
                arguments["forget"] = BATCH
        expired = 0
        while True:
            if self._queue is not None and OPERATIONS[operation].together:
                reply = await self._queue.ask((operation, arguments))
            else:
                reply = await self._execute_twice(operation, arguments)
            if operation == "expire":
                expired += reply[1]
                reply[1] = expired
            if reply[0] == "later":
                continue
            if reply[0] not in ("again", "more"):
                return reply
            arguments["now"] = reply[-1]

    async def begin(self) -> None:
        """Connect, and see that the database can be used."""
        pool, connection = await self._connections.take()
        await maybe_await(pool.putconn(connection))

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    async def _prepare(self, connection: Any) -> None:
        """Check a first connection, and make the schema if there is none."""
        (level,) = await execute(connection, "SHOW transaction_isolation")
        if level != "read committed":  # each statement must see what was committed before it
            raise LedgerUnavailableError(
                f"the ledger's connections must be READ COMMITTED, not {level.upper()}: set "
                "default_transaction_isolation"
            )
        if self._own_timeout_ms is not None:
            await self._check_session(connection, self._own_timeout_ms)
        if not self._installed:
            await install(connection, self._schema, self._migrate, self.place)
            self._installed = True

    async def _do_together(
        self, calls: list[tuple[str, Arguments]]
    ) -> list[list[Any] | LedgerError]:
        """Do operations in one transaction; each alone if one of them cannot be done there."""
        if len(calls) > 1:
            try:
                return await self._execute(*together(calls, self._schema))
            except LedgerUnavailableError as error:
                state = getattr(error.cause, "sqlstate", None) or ""
                if state not in RETRY and state[:2] not in OF_ONE:
                    # Each is raised, and changed, where it was asked for.
                    return [copy(error) for _ in calls]
        return [await self._do_alone(*call) for call in calls]

    async def _do_alone(self, operation: str, arguments: Arguments) -> list[Any] | LedgerError:
        try:
            return await self._execute_twice(operation, arguments)
        except LedgerError as error:
            return error

    async def _check_session(self, connection: Any, timeout_ms: int) -> None:
        """Refuse a connection that has lost its settings: its statements may be another's."""
        query = "SELECT setting FROM pg_settings WHERE name = 'statement_timeout'"
        (setting,) = await execute(connection, query)
        if setting != str(timeout_ms):
            raise LedgerUnavailableError(
                "the ledger's connection has lost its settings on the way, as in a pooler that "
                "ignores `options`: pass behind_pooler=True"
            )

    async def _execute_twice(self, operation: str, arguments: Arguments) -> list[Any]:
        """Execute a statement, once more if the server gave it up for the sake of others."""
        query = statement(operation, self._schema), parameters(operation, arguments)
        try:
            return await self._execute(*query)
        except LedgerUnavailableError as error:
            if getattr(error.cause, "sqlstate", None) not in RETRY:
                raise
        return await self._execute(*query)

    async def _execute(self, text: bytes, values: list[str | None]) -> list[Any]:
        pool, connection = await self._connections.take()
        try:
            cursor = await maybe_await(connection.execute(text, values))
            (reply,) = await maybe_await(cursor.fetchone())
        except psycopg.Error as error:
            if is_lost(error) or error.sqlstate == READ_ONLY:
                await self._connections.drop(pool)
            raise ledger_error(error, sent=True) from None
        finally:
            await maybe_await(pool.putconn(connection))
        return list(reply)
